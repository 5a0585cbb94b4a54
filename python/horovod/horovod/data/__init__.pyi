from ronde.data import AsyncDataLoaderMixin as AsyncDataLoaderMixin
from ronde.data import BaseDataLoader as BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
