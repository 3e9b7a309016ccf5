"""Films as files: mp4 through PyAV, gif through Pillow. Frames are bytes ``[T, H, W, 3]``."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from marlenv.errors import DtypeError, ShapeError, SpecError, SpecTypeError
from marlenv.files import whole_file
from marlenv.optional import need

KINDS = ("mp4", "gif")
LONGEST = 655_350  # ms that a frame of a gif lasts, at most


def as_frames(video: Tensor) -> Tensor:
    """A video ``[..., T, C, H, W]`` as frames; uint8 ``[T, H, W, 3]``, several one after the other.

    Raises:
        ShapeError: it has no dimension of 1 or 3 colours.

    >>> as_frames(torch.zeros(1, 5, 1, 4, 6)).shape
    torch.Size([5, 4, 6, 3])
    """
    if video.ndim < 4 or video.shape[-3] not in (1, 3):
        raise ShapeError(f"expected a video [..., T, C, H, W] of 1 or 3 colours, got {list(video.shape)}")
    frames = video.reshape(-1, *video.shape[-3:]).movedim(-3, -1)
    return frames.expand(*frames.shape[:-1], 3).to(torch.uint8)


def write_video(path: str | Path, frames: Tensor, fps: float = 30, crf: int = 18) -> Path:
    """Writes frames ``[T, H, W, 3]`` into a file whose ending says how: ``.mp4`` (H.264) or ``.gif``.

    Args:
        path: of the file.
        frames: uint8; of an mp4 the last row or column is left out where their number is odd.
        fps: frames per second; of a gif at most 50.
        crf: how much an mp4 may lose: 0 is nothing, 18 hard to see.

    Raises:
        SpecError: the ending is another one, or there are no frames per second, or too few for a gif.
        ShapeError: there are no frames, or they have another shape, or are less than 2 x 2 pixels in an mp4.
        DtypeError: they are not bytes.
        SpecTypeError: they are not in a tensor.
        OSError: the file cannot be written; an older one is as it was.
    """
    path = Path(path)
    if not isinstance(frames, Tensor):
        got = type(frames).__name__
        raise SpecTypeError(f"write_video: expected frames in a tensor, got {got}; torch.as_tensor makes one of arrays")
    if frames.ndim != 4 or frames.shape[-1] != 3 or 0 in frames.shape:
        raise ShapeError(f"write_video: expected frames [T, H, W, 3], one or more, got {list(frames.shape)}")
    if not isinstance(fps, (Real, Tensor)) or not 0 < fps < math.inf:
        raise SpecError(f"write_video: fps must be above 0 and finite, got {fps!r}")
    kind = path.suffix[1:]
    if kind not in KINDS:
        raise SpecError(f"write_video: the file must end with one of {[f'.{k}' for k in KINDS]}, got {path.name!r}")
    if frames.dtype != torch.uint8:
        raise DtypeError(f"write_video: expected frames of uint8, 0 to 255, got {frames.dtype}; scale and convert them")
    height, width = (n - n % 2 for n in frames.shape[1:3])
    if kind == "mp4" and not (height and width):
        size = list(frames.shape[1:3])
        raise ShapeError(f"write_video: an mp4 has 2 rows and columns or more, got {size}; write a .gif")
    with whole_file("write_video", path) as draft:
        if kind == "gif":
            write_gif(draft, frames, fps)
        else:
            _write_mp4(draft, frames[:, :height, :width], fps, crf)
    return path


def _write_mp4(path: Path, frames: Tensor, fps: float, crf: int) -> None:
    av = need("av", "write_video")
    rate = Fraction(float(fps)).limit_denominator(1001)  # which has 30000/1001, the rate of NTSC
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": str(crf)})
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], "yuv420p"
        for frame in frames.cpu().contiguous():
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame.numpy(), format="rgb24")))
        container.mux(stream.encode())


def write_gif(path: str | Path | IO[bytes], frames: Tensor, fps: float = 30) -> None:
    """Writes frames ``[T, H, W, 3]`` as a gif, which says in a comment how long a frame lasts.

    Equal frames that follow one another are one that lasts longer, or several where that would be over 655 seconds.

    Raises:
        SpecError: a frame would last longer.
    """
    if not fps * LONGEST >= 1000:
        raise SpecError(
            f"write_gif: a frame of a gif lasts {LONGEST / 1000} s at most; raise fps, {fps}, or write an mp4"
        )
    images, duration = need("PIL.Image", "write_gif"), max(20, 10 * round(100 / fps))
    frames, film, equal = frames.cpu(), [], 0
    for i, frame in enumerate(frames):
        equal = equal + 1 if i and torch.equal(frame, frames[i - 1]) else 0
        if equal // (LONGEST // duration) % 2:  # one through which that before is seen, as Pillow would add it to that
            other = (255 - frame[0, 0]).tolist()
            film.append(images.new("RGBA", (frame.shape[1], frame.shape[0]), (*other, 0)))
        else:
            film.append(images.fromarray(frame.numpy()))
    options = {"duration": duration, "loop": 0, "comment": f"{duration} ms".encode()}
    film[0].save(path, format="GIF", save_all=True, append_images=film[1:], **options)


def read_video(path: str | Path) -> Tensor:
    """The frames of a file that :func:`write_video` wrote; uint8 ``[T, H, W, 3]``."""
    path, found = Path(path), []
    if path.suffix == ".gif":
        images, sequence = need("PIL.Image", "read_video"), need("PIL.ImageSequence", "read_video")
        with images.open(path) as film:
            said = film.info.get("comment", b"").split()
            for frame in sequence.Iterator(film):
                lasts = frame.info.get("duration", 0)
                found += [_bytes(frame.convert("RGB"))] * (round(lasts / int(said[0])) if said[1:] == [b"ms"] else 1)
    else:
        with need("av", "read_video").open(str(path)) as container:
            found = [torch.from_numpy(f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]
    return torch.stack(found)


def _bytes(image: object) -> Tensor:
    import numpy as np

    return torch.from_numpy(np.array(image))


def grid(images: Tensor, columns: int = 8, gap: int = 2) -> Tensor:
    """Images ``[N, C, H, W]`` side by side in one, ``[C, H', W']``, black between them.

    >>> grid(torch.ones(3, 1, 2, 2), columns=2, gap=1).int()
    tensor([[[1, 1, 0, 1, 1],
             [1, 1, 0, 1, 1],
             [0, 0, 0, 0, 0],
             [1, 1, 0, 0, 0],
             [1, 1, 0, 0, 0]]], dtype=torch.int32)
    """
    number, colours, height, width = images.shape
    columns = min(columns, number)
    lines = -(-number // columns)
    out = images.new_zeros(colours, lines * (height + gap) - gap, columns * (width + gap) - gap)
    for i, image in enumerate(images):
        top, left = (i // columns) * (height + gap), (i % columns) * (width + gap)
        out[:, top : top + height, left : left + width] = image
    return out
