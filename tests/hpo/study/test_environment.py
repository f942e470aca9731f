"""What a study ran on is told apart where it may change the last digits."""

from hpo.study.basis.environment import processor_of

MILAN = """\
processor\t: 0
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC
flags\t\t: fpu sse2 avx avx2

processor\t: 1
cpu family\t: 0
"""


def test_processors_of_one_name_are_told_apart_by_what_libraries_choose_their_code_by():
    assert processor_of(MILAN) == "AMD EPYC (family 25, model 1, avx2)"
    genoa = MILAN.replace("model\t\t: 1", "model\t\t: 17").replace("avx2", "avx2 avx512f avx512vl")
    assert processor_of(genoa) == "AMD EPYC (family 25, model 17, avx512f)"
    masked = MILAN.replace("avx2", "")
    assert processor_of(masked) == "AMD EPYC (family 25, model 1, avx)"
