"""Public data sets: four come along, others are read from a folder or fetched from OpenML."""

from sfumato.datasets.catalogue import Dataset, available, load
