"""Energy and CO2 beside things that a person knows; each comparison says what it assumes."""

LAMP = 10.0  # watts of an LED lamp
WATER = 4.186 * 80 / 3.6e6  # kWh that heat a gram of water from 20 to 100 °C
CAR = 120.0  # grams of CO2 that a car emits on a kilometre
BREATH = 1000.0 / 86400  # grams of CO2 that a person breathes out in a second: about a kilogram a day


def energy_in_words(kwh: float) -> str:
    """Return what else so much energy does.

    >>> energy_in_words(0.0001)
    'as much as a lamp of 10 W takes in 36 s; it would heat 1.1 g of water from 20 to 100 °C'
    """
    lamp = spoken_seconds(kwh * 1000 / LAMP * 3600)
    water = spoken_grams(kwh / WATER)
    return f"as much as a lamp of {LAMP:g} W takes in {lamp}; it would heat {water} of water from 20 to 100 °C"


def co2_in_words(grams: float) -> str:
    """Return what else emits so much CO2.

    >>> co2_in_words(0.05)
    'as much as a car of 120 g/km emits on 42 cm; a person breathes it out in 4.3 s'
    """
    drive, breath = spoken_metres(grams / CAR * 1000), spoken_seconds(grams / BREATH)
    return f"as much as a car of {CAR:g} g/km emits on {drive}; a person breathes it out in {breath}"


def spoken_seconds(seconds: float) -> str:
    """Return a time with two digits.

    >>> [spoken_seconds(each) for each in (0.0312, 3.21, 95, 4000, 200_000)]
    ['31 ms', '3.2 s', '95 s', '67 min', '56 h']
    """
    for size, unit, least in ((3600, "h", 7200), (60, "min", 120), (1, "s", 1)):
        if seconds >= least:
            return f"{two_digits(seconds / size)} {unit}"
    return f"{two_digits(seconds * 1000)} ms"


def spoken_grams(grams: float) -> str:
    """Return a weight with two digits.

    >>> [spoken_grams(each) for each in (0.002, 0.25, 31, 4200)]
    ['2 mg', '250 mg', '31 g', '4.2 kg']
    """
    if grams >= 1000:
        return f"{two_digits(grams / 1000)} kg"
    return f"{two_digits(grams)} g" if grams >= 1 else f"{two_digits(grams * 1000)} mg"


def spoken_metres(metres: float) -> str:
    """Return a length with two digits.

    >>> [spoken_metres(each) for each in (0.0021, 0.42, 12.4, 3200)]
    ['2.1 mm', '42 cm', '12 m', '3.2 km']
    """
    for size, unit in ((1000, "km"), (1, "m"), (0.01, "cm")):
        if metres >= size:
            return f"{two_digits(metres / size)} {unit}"
    return f"{two_digits(metres * 1000)} mm"


def two_digits(value: float) -> str:
    """Return a number with two digits that count, or all of a whole number.

    >>> [two_digits(each) for each in (0, 0.0123, 3.21, 42.4, 1234.5)]
    ['0', '0.012', '3.2', '42', '1,234']
    """
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.2g}"
