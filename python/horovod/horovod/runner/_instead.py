"""Names of Horovod's launcher that mean something else here."""


def instead(name, use):
    """A function of that name, which says what to use instead."""

    def missing(*args, **kwargs):
        raise NotImplementedError(f"Ronde has no {name}; use {use}")

    missing.__name__ = missing.__qualname__ = name
    return missing
