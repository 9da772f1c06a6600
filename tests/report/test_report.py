"""The report: every form says the same, warns where it must, and trusts no text it is given."""

import json
import math
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings, strategies as st

from sfumato import Guarantee
from sfumato.privacy.events import GaussianEvent, NonPrivateEvent, PureEvent, RepeatedEvent
from sfumato.report import LedgerExtract, Report, Result
from sfumato.report.words import LIMITS

WHEN = datetime(2025, 3, 4, 5, 6, tzinfo=UTC)
PROVED = Guarantee(
    epsilon=1.0,
    delta=1e-5,
    public=("number of records", "label set"),
    events=(GaussianEvent(3.5), RepeatedEvent(GaussianEvent(3.5), 4), PureEvent(0.25, "choice")),
)
UNPROVED = {
    "conditional": Guarantee(epsilon=2.0, status="conditional", conditions=("rows are alone",)),
    "testing": Guarantee(epsilon=2.0, status="testing"),
    "refuted": Guarantee(epsilon=None, status="refuted", claimed_epsilon=0.125),
    "infinite": Guarantee(epsilon=math.inf, events=(NonPrivateEvent(),)),
}


def a_report(*guarantees, **options):
    rows = [Result(f"model {i}", g) for i, g in enumerate(guarantees)]
    return Report("Wards", rows, when=WHEN, **options)


class Reader(HTMLParser):
    """Read a page as a browser would: the tags in order, their attributes, the text."""

    VOID = ("meta",)

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text, self.stack = [], [], [], []
        self.feed(text)
        self.close()
        assert self.stack == [], "a tag is left open"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, "tags do not nest"

    def handle_data(self, data):
        if "style" not in self.stack:
            self.text.append(data)

    @property
    def plain(self):
        return " ".join("".join(self.text).split())


def forms(report):
    return {"json": report.to_json(), "html": Reader(report.to_html()).plain}


# What is said -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "html"])
@pytest.mark.parametrize("guarantee", [PROVED, *UNPROVED.values()])
def test_every_form_holds_the_whole_sentence_and_what_it_rests_on(form, guarantee):
    text = forms(a_report(guarantee))[form]
    assert str(guarantee) in text
    for said in (*guarantee.public, *guarantee.conditions):
        assert said in text


@pytest.mark.parametrize("kind", UNPROVED)
def test_every_form_warns_of_what_is_not_proved(kind):
    report = a_report(PROVED, UNPROVED[kind])
    assert [w.partition(":")[0] for w in report.warnings] == ["model 1"]
    assert json.loads(report.to_json())["warnings"] == list(report.warnings)
    page = report.to_html()
    assert page.index('class="warning"') < page.index("<table")
    assert 'class="promise unproved"' in page
    assert "Every guarantee in this report is proved" not in page


# The page -----------------------------------------------------------------------------------


def full_report(text="harmless", when=WHEN):
    """Return a report with `text` in every place that takes text from outside."""
    guarantee = Guarantee(
        epsilon=1.0,
        status="conditional",
        public=(text,),
        conditions=(text,),
        events=(PureEvent(0.5, text),),
    )
    rows = [Result(text, guarantee, (text,)), Result(text, PROVED)]
    return Report(
        text,
        rows,
        settings={text: text},
        ledger=LedgerExtract(text, 1.0, 0.0, text, text, 0.5, 0.5, text, ((text, text, text),)),
        versions={text: text},
        when=when,
    )


def test_no_form_states_less_than_was_promised():
    released = Guarantee(epsilon=1.23422, delta=1.23422e-6, events=(GaussianEvent(3.5),))
    for page in (a_report(released, released).to_html(), released._repr_html_()):
        shown = re.sub(r"<[^>]*>", " ", page)
        wrong = re.search(r"\b(1\.234|2\.468|1\.23\s×\s10)(?!\d)", shown)
        assert wrong is None, shown[wrong.start() - 99 : wrong.end()]
        assert "1.235" in shown


def test_page_is_self_contained_and_runs_nothing():
    reader = Reader(full_report().to_html())
    tags = {tag for tag, _ in reader.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "a", "base"}
    names = {name for _, name, _ in reader.attributes}
    assert not {n for n in names if n.startswith("on")} | (names & {"src", "href", "action"})
    assert "url(" not in full_report().to_html()
    assert "@import" not in full_report().to_html()
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'") in reader.attributes
    assert all(limit in reader.plain for limit in LIMITS)
    assert ("html", "lang", "en") in reader.attributes
    assert ("meta", "name", "viewport") in reader.attributes


HOSTILE = st.one_of(
    st.text(min_size=1, max_size=30),
    st.text("<>&\"'/=`|\\\n#*_[]()!-;{}% scriptxlm", min_size=1, max_size=30),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            '"><svg onload=alert(1)>',
            "' onmouseover='x",
            "</style><b>",
            "<!--",
            "]]>",
            "&lt;b&gt;",
            "{title}",
            "\\g<0>",
            "a|b\n| c | d |",
            "\n# heading",
            "![x](http://x)",
        ]
    ),
)


def tag_structure(page):
    tags = Reader(page).tags
    return [tag for tag in tags if tag != ("span", ("class",))]  # a chip, or a number kept whole


@settings(max_examples=60, deadline=None)
@given(
    HOSTILE.filter(
        lambda text: (
            text.split()
            and not re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", text.replace("\n", ""))
        )
    )
)
def test_no_text_changes_the_structure_of_the_page(text):
    page = full_report(text).to_html()
    assert tag_structure(page) == tag_structure(full_report().to_html())
    reader = Reader(page)
    whole = " ".join(text.split())
    assert reader.plain.count(whole) >= 8
