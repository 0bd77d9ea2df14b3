"""Which user functions a random chain draws, by the types of what they take. The names are those of
`tests/dsl_vectors/functions.py`.

A drawn function is a pair: as a case writes it, and the type of its results.
"""

from random import Random

Written = list[object]
STRING, LONG = "string", "long"


def any_mapper(random: Random, value: str, *, with_key: bool) -> tuple[Written, str]:
    """`with_key`: whether the function may use the key."""
    if value == STRING:
        to_text: list[Written] = [["identity"], ["upper"], ["reverse"], ["append", random.choice(("!", "é", ""))]]
        to_text += [["orElse", "none"], ["nullIf", random.choice((2, 3, 4)), 1]]
        to_number: list[Written] = [["length"], ["number"], ["hash", random.choice((2, 3, 10))], ["add", 2]]
    else:
        to_text = [["toText"], ["toText"]]
        to_number = [["identity"], ["add", random.choice((1, -3, 2**62))], ["nullIf", 3, 1], ["hash", 7], ["orElse", 4]]
    to_text += [["withKey"]] * with_key
    number = random.randrange(len(to_text) + len(to_number))
    return (to_text[number], STRING) if number < len(to_text) else (to_number[number - len(to_text)], LONG)


def any_predicate(random: Random) -> Written:
    drawn: list[Written] = [
        ["valueHash", 2, 0],
        ["valueHash", 3, random.randrange(3)],
        ["keyHash", 2, 1],
        ["lengthAtLeast", random.choice((1, 2, 5))],
        ["valueNotNull"],
        ["valueIsNull"],
        ["keyNotNull"],
        ["contains", random.choice(("a", " ", ":"))],
        ["always"],
        ["never"],
    ]
    return random.choices(drawn, (4, 4, 3, 2, 1, 1, 1, 2, 1, 0.3))[0]


def any_key(random: Random, key: str) -> Written:
    """A key function, whose results are text."""
    drawn: list[Written] = [["firstLetter"], ["bucket", random.choice((1, 2, 3))], ["constant", "k"], ["valueAsKey"]]
    if key == STRING:
        drawn += [["keyUpper"], ["keyFirstLetter"], ["nullIfKey", 3, 1], ["keyAndFirstLetter"], ["beforeColon"]]
    return random.choice([*drawn, ["keyText"], ["keyText"]])


def any_foreign_key(random: Random, value: str) -> Written:
    drawn: list[Written] = [["valueAsKey"], ["bucket", 2], ["keyText"], ["constant", "a"]]
    if value == STRING:
        drawn += [["beforeColon"], ["firstLetter"], ["keyFirstLetter"]] * 3
    return random.choice(drawn)


def any_aggregator(random: Random, value: str) -> tuple[Written, str]:
    if value == STRING:
        to_text: list[Written] = [["concat"], ["concat"], ["keepLongest"], ["first"], ["last"], ["keyed"]]
        to_text.append(["resetOn", random.choice(("x", "a"))])
        to_number: list[Written] = [["sum"], ["count"], ["nullAtSum", 3]]
    else:
        to_text = [["concat"], ["keyed"]]
        to_number = [["sum"], ["max"], ["count"], ["nullAtSum", 4], ["last"]]
    number = random.randrange(len(to_text) + len(to_number))
    return (to_text[number], STRING) if number < len(to_text) else (to_number[number - len(to_text)], LONG)


def any_reducer(random: Random, value: str) -> Written:
    if value == LONG:
        return random.choice([["sum"], ["max"], ["subtract"], ["last"], ["first"], ["nullAtSum", 3]])
    drawn: list[Written] = [["concat"], ["concat"], ["keepLongest"], ["first"], ["last"]]
    return random.choice([*drawn, ["resetOn", random.choice(("x", "a"))]])


def any_initial_value(random: Random, value: str) -> object:
    return random.choice(("", "", "i", None) if value == STRING else (0, 0, 5, None))


def any_merger(random: Random, value: str) -> Written:
    if random.random() < 0.05:
        return ["null"]
    return ["joinText"] if value == STRING else ["sum"]


def any_joiner(random: Random, left: str, right: str, *, with_key: bool = False) -> tuple[Written, str]:
    drawn: list[tuple[Written, str]] = [
        (["pairText"], STRING),
        (["pairText"], STRING),
        (["nullIf", 3, 1], STRING),
        (["numSum"], LONG),
        (["left"], left),
        (["right"], right),
    ]
    if with_key:
        drawn.append((["keyed"], STRING))
    return random.choice(drawn)
