"""A figure's SVG is compact and still the same picture."""

import re

from reporting.figures import compact_svg

MARKERS = """<svg>
 <metadata>
  <dc:date>now</dc:date>
 </metadata>
 <path d="M 1.23456 2.5
L 0.000123 4 "/>
 <use xlink:href="#m" x="119.856217" y="1" style="fill: #0072b2"/>
 <use xlink:href="#m" x="2" y="3.999999" style="fill: #0072b2"/>
 <use xlink:href="#m" x="5" y="6" style="fill: #d55e00"/>
 <text transform="scale(0.015625)">0.12345</text>
</svg>
"""


def test_places_are_rounded_and_equal_markers_share_a_style_but_shown_text_and_scales_stay():
    compact = compact_svg(MARKERS)
    assert "date" not in compact and 'd="M 1.23 2.5\nL 0 4 "' in compact
    assert '>0.12345</text>' in compact and "scale(0.015625)" in compact
    group = re.search(r'<g style="fill: #0072b2">\n(.*?)</g>', compact, re.DOTALL)[1]
    assert re.findall(r'x="([\d.]+)" y="([\d.]+)"/>', group) == [("119.86", "1"), ("2", "4")]
    assert '<use xlink:href="#m" x="5" y="6" style="fill: #d55e00"/>' in compact, "one marker needs no group"
