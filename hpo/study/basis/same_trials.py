"""Changes of the toolkit's code by which no trial became another: a study of before goes on as if nothing had changed.

An entry holds for one state of the code, whose hash is its key: whoever changes that code again has to decide again. A
hash depends on how Python writes code, so there are two of some: of 3.11, and of later versions.
"""

from collections.abc import Collection, Mapping

# By the hash of a piece of `CodeHashes` (see there) as it is today, those of before.
SAME_TRIALS: Mapping[str, Collection[str]] = {
    # hpo/objectives: the nearest row of a table is found faster; a command's line and files are named as code; flags,
    # all values and a file of its own for a program, which refuses a key that it has no place for; a command is read
    # once, as is a table, which has further columns as metrics.
    "84303a25d0fb16e2": (
        "a4558f76cffdd1b9",
        "e9d7c6b06747a73d",
        "63709bca1be63a67",
        "9c66277deff13dd3",
        "ddf2fda1a836e7dc",
        "1bdb8c38b8dc235b",
        "0fb33083064e4965",
    ),
    "20ac99cb46eeec90": (
        "15001abc7d9cd2f7",
        "a029f5226c098928",
        "2add9c75ba755596",
        "5d207e2f0f8aa1d7",
        "5420290dd971d77c",
        "a19e31e8a697d2f3",
        "c282830bab7ef9c8",
    ),
    # model: how many train together is said by the task, not by the environment; a CSV's header in its own words; what
    # is scored, what a training costs, how its mean warms up and what muon splits are settings that studies of before
    # lack. An amount that ends between two evaluations is evaluated there. Its size, cost and speed are reported.
    # Its rates and first weights may go by its size, and the rate of embeddings by their number. Too many logits are
    # computed once, but in studies of before. A running text may be read as subwords, and is read line by line.
    "8e81c8e02f8232d9": (
        "be41f3eec7f1dd3c",
        "fdbb02159fad05f9",
        "fc47d36deded77cf",
        "82d6e5688df761dd",
        "31a6c6887df5d4f2",
        "b0b04c6bc10f70cc",
        "7c1a274b1cad0746",
        "87c8c7442559c467",
        "0da3f75a3e7bf77f",
        "50658898820dfc91",
    ),
    "e08307bacea6dcff": (
        "f0ac7737c25c64df",
        "be3c33078ce581df",
        "0db34c279f21196c",
        "6aec0420efb876ef",
        "b205bbea9efc59f3",
        "c96fde05a238a942",
        "5b245e03950a03db",
        "796af2789040c8a4",
        "a1675920ad6ddee1",
        "5ef8fc3a72d70334",
    ),
    # Strategies: several metrics and limits. Of asha and the kinds of halving also a setting of what the budget counts,
    # which studies of before lack; of tpe, gp and cma_es imports inside of an `if`, and what a sampler sees of a trial.
    "2d4d323612bb708b": ("d7422613c10c001c",),
    "b7aa3780209ecdcf": ("87b63af6139de98f",),
    "681cadbfc82c9e37": ("39d025b31f9cf589",),
    "ffa54aff4ef46cdf": ("6d04aab34ce85502", "9e943cf5c56b250e"),
    "276712cb78366cb3": ("b1a8b011358f86bd", "daf546696d42f02b"),
    "3e38841cf7026751": ("2f1204033ae9f19f", "9bd360b69e1e9aae", "078d48fd06681c5b"),
    "30304a34b3b4f6ae": ("a7aed0ee818dd6bf", "e2402250e4c3ac77", "567ed8dd4116f551"),
    # The ladder: what it expects of the next scale is a setting's matter, which the first ones lack.
    "b6da61d68daffcef": ("2a7789f255ad7bb1",),
    # The search: lists and mappings as choices, steps, references to what is searched, groups of metrics; tasks that
    # begin are shown; what it shares is filled by name, and the steps of an objective have a file of their own; fewer
    # files, in rooms of other names; several metrics and limits; acts of hands,
    # studies without a worker, and scales. Values of one name are refused, of which the last one was taken. A gap in a
    # metric's curve is told.
    "b1b71f7316b51b93": (
        "95e6677628324af4",
        "06df9561454a7aaa",
        "bf34b7862dea4aa0",
        "3d2d34ffa881d8f3",
        "5bc4423b2b2c2f12",
        "43cc44b418ce37b1",
        "38df221aefc6302c",
        "b872c7d9924c115e",
        "4f2e06a319bbf1ee",
        "b81e9e416c2f3436",
    ),
    "0f764ef38836333c": (
        "3682d64edc8d9787",
        "0090cc4036e20dc7",
        "f8d6c19fbf96a509",
        "099deecf9dc274e4",
        "39d0b141c7213e1b",
        "77e1d7039ed53d63",
        "7c2c23d0da88e530",
        "255803a4fe687e78",
        "ff0e684cbd3b24e7",
        "76bad8b160b49d28",
    ),
}
