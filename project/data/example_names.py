"""Surnames by language, from a package that ships them: texts without a download."""

from importlib import import_module

LANGUAGES = {
    "Croatian": "hr_HR", "Dutch": "nl_NL", "English": "en_GB", "Estonian": "et_EE",
    "Finnish": "fi_FI", "French": "fr_FR", "Irish": "ga_IE", "Italian": "it_IT",
    "Slovak": "sk_SK", "Spanish": "es_ES", "Zulu": "zu_ZA",
}  # fmt: skip
"""Written in Latin letters and of several hundred names each, by what faker calls them."""


def names_by_language() -> tuple[list[str], list[str]]:
    """Names in alphabetical order, and the language of each.

    A name in the lists of several languages is left out: nobody could tell which is meant.
    The lists were made to generate fictitious persons; they are no census, and some hold names of
    other origin.

    Source: the package faker (MIT), the surnames of `faker.providers.person`.
    """
    languages: dict[str, set[str]] = {}
    for language, locale in LANGUAGES.items():
        provider = import_module(f"faker.providers.person.{locale}").Provider
        lists = [getattr(provider, name) for name in dir(provider) if name.startswith("last_names")]
        for name in {name for each in lists for name in each}:
            languages.setdefault(name, set()).add(language)
    alone = {name: found.pop() for name, found in languages.items() if len(found) == 1}
    names = sorted(alone)
    return names, [alone[name] for name in names]
