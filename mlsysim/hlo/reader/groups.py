"""Replica groups: which devices take part in a collective, in each of the ways that a program can say so."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import product

from mlsysim.errors import InputError
from mlsysim.hlo.reader.limits import check

Groups = tuple[tuple[int, ...], ...]
_MAX_DEVICES = 2**20
_IOTA = re.compile(r"\[([\d,\s]+)\]\s*<=\s*\[([\d,\s]+)\](?:\s*T\(([\d,\s]+)\))?")
_AXIS = re.compile(
    r'name\s*=\s*"([^"]+)"(?:\s*,\s*sub_axis_info\s*=\s*[^<]*<pre_size\s*=\s*(\d+)\s*,\s*size\s*=\s*(\d+))?'
)


def listed(rows: Sequence[Sequence[int]]) -> Groups:
    """Groups written out; short rows are padded with -1.

    >>> listed([[0, 1], [2, -1]])
    ((0, 1), (2,))
    """
    return tuple(tuple(device for device in row if device >= 0) for row in rows)


def iota(text: str) -> Groups:
    """Groups as a reshaped and transposed count: ``[groups, size]<=[dims]T(permutation)``.

    >>> iota("[2,4]<=[8]")
    ((0, 1, 2, 3), (4, 5, 6, 7))
    >>> iota("[4,2]<=[2,4]T(1,0)")
    ((0, 4), (1, 5), (2, 6), (3, 7))
    """
    found = _IOTA.search(text)
    if not found:
        raise InputError(f"replica groups {text[:60]!r} are not of the form [groups,size]<=[dims]T(permutation)")
    shape, dims, order = ([int(n) for n in part.split(",")] if part else [] for part in found.groups())
    order = order or list(range(len(dims)))
    total = math.prod(dims)
    check(total, _MAX_DEVICES, "the number of devices", "no machine has as many")
    if len(shape) != 2 or math.prod(shape) != total or sorted(order) != list(range(len(dims))):
        raise InputError(f"replica groups {text[:60]!r} do not tile their devices")
    strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    flat = [
        sum(i * strides[d] for i, d in zip(index, order, strict=True))
        for index in product(*(range(dims[d]) for d in order))
    ]
    return tuple(tuple(flat[g * shape[1] : (g + 1) * shape[1]]) for g in range(shape[0]))


def along_axes(
    mesh: Sequence[tuple[str, int]], axes: Sequence[tuple[str, int, int]], devices: Sequence[int] = ()
) -> Groups:
    """Groups along axes of a mesh. An axis is (name, pre, size): the whole of it, or the middle of pre x size x rest.

    Devices are numbered with the last axis fastest, unless ``devices`` lists them. In a group, the first axis of
    ``axes`` is the slowest.

    >>> along_axes([("dp", 2), ("tp", 4)], [("dp", 1, 2)])
    ((0, 4), (1, 5), (2, 6), (3, 7))
    """
    total = math.prod(size for _, size in mesh)
    check(total, _MAX_DEVICES, "the number of devices", "no machine has as many")
    wanted: dict[str, list[tuple[int, int]]] = {}
    for name, pre, size in axes:
        wanted.setdefault(name, []).append((pre, size))
    if unknown := set(wanted) - {name for name, _ in mesh}:
        raise InputError(f"a collective runs along axis {sorted(unknown)[0][:40]!r}, which its mesh does not have")
    parts: list[tuple[str, int, int]] = []  # the mesh with split axes: (name, pre, size)
    for name, size in mesh:
        done = 1
        for pre, part in sorted(wanted.get(name, [])):
            if part < 1 or pre % done or size % (pre * part):
                raise InputError(f"a collective runs along a part of axis {name[:40]!r} that does not divide it")
            if pre > done:
                parts.append((name, done, pre // done))
            parts.append((name, pre, part))
            done = pre * part
        if done < size:
            parts.append((name, done, size // done))
    strides = {}
    stride = 1
    for part_of in reversed(parts):
        strides[part_of] = stride
        stride *= part_of[2]
    inner = [(name, pre, size) for name, pre, size in axes]
    outer = [p for p in parts if p not in inner]

    def offsets(some: Sequence[tuple[str, int, int]]) -> list[int]:
        return [
            sum(i * strides[p] for i, p in zip(index, some, strict=True))
            for index in product(*(range(p[2]) for p in some))
        ]

    rank = list(devices) or list(range(total))
    return tuple(tuple(rank[base + step] for step in offsets(inner)) for base in offsets(outer))


def from_mesh_text(text: str, meshes: Mapping[str, Sequence[tuple[str, int]]]) -> Groups:
    """Groups from the text of a ``replica_group_mesh_axes`` attribute, which names a mesh and axes of it."""
    named = re.search(r"mesh\s*=\s*@\"?([\w.$-]+)", text)
    if named and named[1] in meshes:
        mesh = meshes[named[1]]
    else:
        inline = re.findall(r'name\s*=\s*"([^"]+)"\s*,\s*size\s*=\s*(\d+)', text)
        mesh = [(name, int(size)) for name, size in inline]
    if not mesh:
        raise InputError(
            f"a collective names mesh {named[1][:40] if named else '?'!r}, which the program does not define"
        )
    sizes = dict(mesh)
    axes = [
        (name, int(pre or 1), int(size or sizes.get(name, 1)))
        for name, pre, size in _AXIS.findall(text[text.find("axes", text.find("mesh")) :])
    ]
    return along_axes(mesh, axes)
