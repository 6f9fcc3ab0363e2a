"""The whole book in one picture: a model, a machine and a job go in, four answers come out and are held against measurements."""

from mlsysim.drawing.scenes import Arrow, Box, Scene, Shape, Words


def journey() -> Scene:
    """From a question to an answer that was checked, with the chapters where each part is learnt."""
    shapes: list[Shape] = []
    for i, (text, kind) in enumerate((("a model", "other"), ("machines", "compute"), ("a job", "extra"))):
        shapes.append(Box(8 + 132.0 * i, 8, 120, 36, text, kind, rounded=True))
        shapes.append(Arrow([(68 + 132.0 * i, 44), (68 + 132.0 * i, 70)], width=2))
    shapes.append(Box(8, 70, 384, 128, rounded=True))
    shapes.append(Words(200, 86, "a few equations", bold=True))
    rows = (
        ("one device", "1 to 3", "compute"),
        ("many of them", "4 to 6", "network"),
        ("people who wait", "7, 8", "memory"),
    )
    for i, (text, chapters, kind) in enumerate(rows):
        x = 18 + 124.0 * i
        shapes.append(Box(x, 102, 116, 40, text, kind))
        shapes.append(Words(x + 58, 152, f"chapters {chapters}", size=12))
    shapes.append(Words(104, 180, "nearer: 14 to 18", size=12))
    shapes.append(Words(282, 180, "from a program: 19 to 23", size=12))
    answers = (("time", "compute"), ("memory", "memory"), ("energy", "extra"), ("money", "other"))
    for i, (text, kind) in enumerate(answers):
        x = 8 + 98.0 * i
        shapes.append(Arrow([(x + 45, 198), (x + 45, 224)], width=2))
        shapes.append(Box(x, 224, 90, 36, text, kind, rounded=True, bold=True))
    shapes.append(Words(200, 274, "chapters 9 to 11: watts, dollars, failures", size=12))
    shapes.append(Arrow([(104, 284), (104, 312)], width=2))
    shapes.append(Arrow([(296, 312), (296, 284)], width=2, dashed=True))
    shapes.append(Box(8, 312, 192, 40, "beside measurements: 12", "waiting", rounded=True))
    shapes.append(Box(208, 312, 184, 40, "choose the best: 13", "waiting", rounded=True))
    return Scene(
        shapes,
        "A model, machines and a job enter a few equations; out come time, memory, energy and money, which are held against "
        "measurements and used to choose. Each part bears the numbers of its chapters.",
    )
