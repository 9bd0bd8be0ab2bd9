"""A page taken apart by the standard library's parser."""

import base64
import gzip
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input"}


@dataclass
class Element:
    """A start tag: its name, attributes, and the names of the elements around it."""

    tag: str
    attributes: dict[str, str | None]
    around: tuple[str, ...]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """Elements in order; refuses tags that do not close."""

    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs), tuple(entry.tag for entry in self.open))
        assert len(element.attributes) == len(attrs), f"attribute twice on {tag}"
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data

    def all(self, tag: str) -> list[Element]:
        """Elements of a name."""
        return [element for element in self.elements if element.tag == tag]


def taken_apart(page: str) -> Page:
    """Parse a page; every element must close in order."""
    parser = Page()
    parser.feed(page)
    parser.close()
    assert not parser.open
    return parser


def unpacked(text: str) -> bytes:
    """Text that a script of the page unpacks: base 85 with a comma for the less-than sign, gzip."""
    return gzip.decompress(base64.b85decode(text.strip().replace(",", "<")))
