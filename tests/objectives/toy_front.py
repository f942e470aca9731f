"""A toy objective of several metrics, for tests: a better score costs parameters and seconds."""


def several(task):
    """Return a score that grows with size, a size, and a latency; it fails where there are five layers of 64."""
    toy, fold = task["config"]["toy"], task["fold"]
    if toy["layers"] == 5 and toy["width"] == 64:
        raise RuntimeError("out of memory")
    size = toy["layers"] * toy["width"] ** 2
    noise = (task["seed"] * 2654435761 % 2**32 / 2**32 - 0.5) / 50  # looks random
    score = 1 - 1 / (1 + size / 400) - 5 * abs(toy["lr"] - 0.01) + noise + fold / 100
    latency = toy["layers"] * (2.0 if toy["nonlinearity"] == "gelu" else 1.0) + toy["width"] / 32
    return {"score": score, "size": size, "latency": latency}
