"""Files of save in memory, and files that were changed."""

import io
import zipfile

import torch

import torchlike as tl


def written(obj, library=tl, **options):
    file = io.BytesIO()
    library.save(obj, file, **options)
    file.seek(0)
    return file


def again(obj, **options):
    return tl.load(written(obj), weights_only=False, **options)


def from_torch(obj, **options):
    """An object of torch's, saved by torch and loaded by torchlike."""
    return tl.load(written(obj, torch), **{"weights_only": False, **options})


def changed(file, change):
    """The archive with its entries changed."""
    source, target = zipfile.ZipFile(file), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            if (data := change(name, source.read(name))) is not None:
                archive.writestr(name, data)
    target.seek(0)
    return target


class Mine:
    def __init__(self, x=1):
        self.x = x

    def __eq__(self, other):
        return type(other) is Mine and other.x == self.x
