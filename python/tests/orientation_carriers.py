"""Pictures with an orientation in each of the places that programs write it to.

``cases(orientation)`` returns a dict from a name to the bytes of a file. Each file has the same 24 x 40 picture lossless or nearly
so. The size of the decoded picture shows whether a reader has rotated it.
"""

import io
import struct
import zlib

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 24, 40
PREFIX = b"Exif\0\0"
XMP_NAME = b"http://ns.adobe.com/xap/1.0/\0"
TYPES = {
    "byte": 1, "ascii": 2, "short": 3, "long": 4, "rational": 5, "sbyte": 6, "undefined": 7, "sshort": 8, "slong": 9,
    "srational": 10, "float": 11, "double": 12, "ifd": 13, "long8": 16,
}  # fmt: skip


def picture() -> np.ndarray:
    blocks = np.random.default_rng(44).integers(0, 255, (HEIGHT // 8, WIDTH // 8, 3))
    return np.kron(blocks, np.ones((8, 8, 1))).astype(np.uint8)


def saved(form: str, **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(picture()).save(out, form, **options)
    return out.getvalue()


def tiff(value: int, kind: str = "short", big: bool = True, count: int = 1, tag: int = 0x0112, before: int = 0) -> bytes:
    """Returns an EXIF block with the orientation in its first directory, after ``before`` other entries."""
    order = ">" if big else "<"
    inline = {
        "byte": "B3x", "ascii": "B3x", "short": "H2x", "long": "I", "sbyte": "b3x", "undefined": "B3x", "sshort": "h2x",
        "slong": "i", "float": "f", "ifd": "I",
    }  # fmt: skip
    n_entries = before + 1
    behind = 8 + 2 + 12 * n_entries + 4
    tail = b""
    if kind in inline:
        field = struct.pack(order + inline[kind], value + 48 if kind == "ascii" else value)
    else:
        field = struct.pack(order + "I", behind)
        tail = struct.pack(order + {"rational": "II", "srational": "ii", "double": "d", "long8": "Q"}[kind],
                           *((value, 1) if "rational" in kind else (value,)))  # fmt: skip
    head = (b"MM\0*" if big else b"II*\0") + struct.pack(order + "IH", 8, n_entries)
    others = b"".join(struct.pack(order + "HHIHxx", 0x0100 + i, 3, 1, 7) for i in range(before))
    return head + others + struct.pack(order + "HHI", tag, TYPES[kind], count) + field + bytes(4) + tail


def xmp(value: object, style: str = "attribute") -> bytes:
    tag = {
        "attribute": f'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="{value}"/>',
        "element": "<rdf:Description xmlns:tiff='http://ns.adobe.com/tiff/1.0/'>"
                   f"<tiff:Orientation>{value}</tiff:Orientation></rdf:Description>",
        "single quotes": f"<rdf:Description xmlns:tiff='http://ns.adobe.com/tiff/1.0/' tiff:Orientation='{value}'/>",
        "blanks": f'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation = "{value}"/>',
    }[style]  # fmt: skip
    return (f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
            f"{tag}</rdf:RDF></x:xmpmeta>").encode()  # fmt: skip


def raw_profile(block: bytes, kind: str = "exif") -> bytes:
    """Returns ImageMagick's text form of a profile: its name, its length, and lines of hexadecimal digits."""
    digits = block.hex()
    lines = "\n".join(digits[i : i + 72] for i in range(0, len(digits), 72))
    return f"\n{kind}\n{len(block):8d}\n{lines}\n".encode()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(*front: bytes, behind: tuple[bytes, ...] = ()) -> bytes:
    plain = saved("PNG")
    first, last = plain.index(b"IDAT") - 4, plain.index(b"IEND") - 4
    return plain[:first] + b"".join(front) + plain[first:last] + b"".join(behind) + plain[last:]


def ztxt(keyword: bytes, text: bytes) -> bytes:
    return chunk(b"zTXt", keyword + b"\0\0" + zlib.compress(text))


def itxt(keyword: bytes, text: bytes, packed: bool = False) -> bytes:
    return chunk(b"iTXt", keyword + (b"\0\1\0" if packed else b"\0\0\0") + b"\0\0" + (zlib.compress(text) if packed else text))


def app1(block: bytes) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block


def jpeg(*segments: bytes) -> bytes:
    plain = saved("JPEG", quality=95)
    return plain[:2] + b"".join(segments) + plain[2:]


def webp(*chunks: tuple[bytes, bytes], flags: int = 0) -> bytes:
    """Returns a lossless WebP in the extended layout. flags: 8 EXIF, 4 XMP."""
    plain = saved("WEBP", lossless=True)
    body = b"VP8X" + struct.pack("<IB3x", 10, flags) + (WIDTH - 1).to_bytes(3, "little") + (HEIGHT - 1).to_bytes(3, "little")
    body += plain[12:]
    for name, data in chunks:
        body += name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) & 1)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _jpegs(o: int) -> dict[str, bytes]:
    other = 1 if o != 1 else 6
    made = {
        "EXIF": jpeg(app1(PREFIX + tiff(o))),
        "EXIF, little-endian": jpeg(app1(PREFIX + tiff(o, big=False))),
        "EXIF behind other tags": jpeg(app1(PREFIX + tiff(o, before=5))),
        "EXIF twice": jpeg(app1(PREFIX + tiff(o)), app1(PREFIX + tiff(other))),
        "EXIF without orientation, then another": jpeg(app1(PREFIX + tiff(7, tag=0x0100)), app1(PREFIX + tiff(o))),
        "EXIF behind XMP": jpeg(app1(XMP_NAME + xmp(other)), app1(PREFIX + tiff(o))),
        "EXIF behind the tables": (lambda j, e: j.replace(b"\xff\xc0", e + b"\xff\xc0", 1))(jpeg(), app1(PREFIX + tiff(o))),
        "EXIF without its first two bytes": jpeg(app1(b"Exif" + tiff(o))),
        "EXIF with prefix twice": jpeg(app1(PREFIX + PREFIX + tiff(o))),
        "XMP": jpeg(app1(XMP_NAME + xmp(o))),
        "XMP as element": jpeg(app1(XMP_NAME + xmp(o, "element"))),
        "XMP in single quotes": jpeg(app1(XMP_NAME + xmp(o, "single quotes"))),
        "XMP with blanks": jpeg(app1(XMP_NAME + xmp(o, "blanks"))),
        "XMP behind EXIF that lacks the tag": jpeg(app1(PREFIX + tiff(7, tag=0x0100)), app1(XMP_NAME + xmp(o))),
        "XMP behind EXIF of 0": jpeg(app1(PREFIX + tiff(0)), app1(XMP_NAME + xmp(o))),
        "XMP twice": jpeg(app1(XMP_NAME + xmp(other)), app1(XMP_NAME + xmp(o))),
        "XMP behind broken EXIF": jpeg(app1(PREFIX + b"XX\0*\0\0\0\x08"), app1(XMP_NAME + xmp(o))),
    }
    for kind in TYPES:
        for big in (True, False):
            name = f"EXIF of type {kind.upper()}{'' if big else ', little-endian'}"
            made[name] = jpeg(app1(PREFIX + tiff(o, kind, big)))
    for count in (0, 2):
        made[f"EXIF of type SHORT, count {count}"] = jpeg(app1(PREFIX + tiff(o, count=count)))
        made[f"EXIF of type BYTE, count {count}"] = jpeg(app1(PREFIX + tiff(o, "byte", count=count)))
    return made


def _pngs(o: int) -> dict[str, bytes]:
    other = 1 if o != 1 else 6
    exif, name = tiff(o), b"XML:com.adobe.xmp"
    profile = raw_profile(PREFIX + exif)
    return {
        "eXIf": png(chunk(b"eXIf", exif)),
        "eXIf, little-endian": png(chunk(b"eXIf", tiff(o, big=False))),
        "eXIf behind the pixels": png(behind=(chunk(b"eXIf", exif),)),
        "eXIf on both sides": png(chunk(b"eXIf", tiff(other)), behind=(chunk(b"eXIf", exif),)),
        "eXIf twice in front": png(chunk(b"eXIf", tiff(other)), chunk(b"eXIf", exif)),
        "eXIf with prefix": png(chunk(b"eXIf", PREFIX + exif)),
        "eXIf with a wrong checksum": png(chunk(b"eXIf", exif)[:-1] + b"?"),
        "eXIf without orientation, then XMP": png(chunk(b"eXIf", tiff(7, tag=0x0100)), itxt(name, xmp(o))),
        "eXIf of another, then XMP": png(chunk(b"eXIf", tiff(other)), itxt(name, xmp(o))),
        "text exif": png(chunk(b"tEXt", b"Raw profile type exif\0" + profile)),
        "text exif, packed": png(ztxt(b"Raw profile type exif", profile)),
        "text exif, international": png(itxt(b"Raw profile type exif", profile)),
        "text exif, international, packed": png(itxt(b"Raw profile type exif", profile, packed=True)),
        "text exif behind the pixels": png(behind=(ztxt(b"Raw profile type exif", profile),)),
        "text exif without prefix": png(ztxt(b"Raw profile type exif", raw_profile(exif))),
        "text exif in capitals": png(chunk(b"tEXt", b"Raw profile type exif\0" + profile.upper().replace(b"EXIF", b"exif"))),
        "text exif beside eXIf": png(chunk(b"eXIf", exif), ztxt(b"Raw profile type exif", raw_profile(PREFIX + tiff(other)))),
        "text exif of two": png(*(ztxt(b"Raw profile type exif", raw_profile(PREFIX + tiff(v))) for v in (other, o))),
        "text APP1": png(ztxt(b"Raw profile type APP1", raw_profile(PREFIX + exif, "APP1"))),
        "text xmp": png(ztxt(b"Raw profile type xmp", raw_profile(xmp(o), "xmp"))),
        "XMP": png(itxt(name, xmp(o))),
        "XMP, packed": png(itxt(name, xmp(o), packed=True)),
        "XMP in tEXt": png(chunk(b"tEXt", name + b"\0" + xmp(o))),
        "XMP in zTXt": png(ztxt(name, xmp(o))),
        "XMP behind the pixels": png(behind=(itxt(name, xmp(o)),)),
        "XMP as element": png(itxt(name, xmp(o, "element"))),
        "XMP twice": png(itxt(name, xmp(other)), itxt(name, xmp(o))),
    }


def _webps(o: int) -> dict[str, bytes]:
    other = 1 if o != 1 else 6
    return {
        "EXIF": webp((b"EXIF", tiff(o)), flags=8),
        "EXIF, little-endian": webp((b"EXIF", tiff(o, big=False)), flags=8),
        "EXIF with prefix": webp((b"EXIF", PREFIX + tiff(o)), flags=8),
        "EXIF, flag unset": webp((b"EXIF", tiff(o))),
        "EXIF with prefix, flag unset": webp((b"EXIF", PREFIX + tiff(o))),
        "EXIF twice": webp((b"EXIF", tiff(o)), (b"EXIF", tiff(other)), flags=8),
        "XMP": webp((b"XMP ", xmp(o)), flags=4),
        "XMP, flag unset": webp((b"XMP ", xmp(o))),
        "XMP as element": webp((b"XMP ", xmp(o, "element")), flags=4),
        "XMP beside EXIF of another": webp((b"EXIF", tiff(other)), (b"XMP ", xmp(o)), flags=12),
        "XMP beside EXIF that lacks the tag": webp((b"EXIF", tiff(7, tag=0x0100)), (b"XMP ", xmp(o)), flags=12),
        "XMP twice": webp((b"XMP ", xmp(o)), (b"XMP ", xmp(other)), flags=4),
    }


def cases(o: int) -> dict[str, bytes]:
    named = {"JPEG": _jpegs(o), "PNG": _pngs(o), "WebP": _webps(o)}
    return {f"{form}: {name}": data for form, made in named.items() for name, data in made.items()}
