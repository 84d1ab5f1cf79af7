#!/usr/bin/env python3
"""Make the fonts that the app embeds, from the published ones.

egui shapes text with harfrust but passes no feature list: it cannot ask for tabular figures, and it
does apply contextual alternates. So both are settled here, once:

* Inter: the digits' cmap entries point at their tabular forms, `calt` and `liga` are dropped
  (they turn "->" into an arrow inside a user's text), and the character set is cut to what a Latin,
  Greek or Cyrillic interface draws. Other scripts and emoji come from the system's fonts.
* JetBrains Mono: the same cut; its code ligatures go with `calt`.
* Phosphor: only the glyphs of icons.txt, ligatures dropped.

Needs fonttools, the Debian packages fonts-inter and fonts-jetbrains-mono, and the two TTFs of the npm
package @phosphor-icons/web (npm pack @phosphor-icons/web && tar xzf *.tgz).

    python3 freeze.py --phosphor package/src
"""

import argparse
import json
import pathlib
import re

from fontTools import subset
from fontTools.ttLib import TTFont

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE.parent.parent / "app" / "look" / "src" / "icon_table.rs"
TABULAR = set("0123456789+-−.,:%")
TEXT = [
    range(0x20, 0x250),  # Latin
    range(0x2B0, 0x380),  # modifiers, combining marks
    range(0x370, 0x530),  # Greek, Cyrillic
    range(0x1E00, 0x2000),  # Latin and Greek extended
    range(0x2000, 0x20D0),  # punctuation, superscripts, currency
    range(0x2100, 0x2400),  # letterlike, arrows, mathematics, keyboard symbols
    range(0x2500, 0x2600),  # boxes, shapes
    (0x2605, 0x2606, 0x2610, 0x2611, 0x2612, 0x26A0, 0x2713, 0x2717, 0xFB01, 0xFB02, 0xFFFD),
]


def tabular_forms(font):
    """Glyph name → its tabular form, from the font's own `tnum` lookups."""
    gsub, forms = font["GSUB"].table, {}
    for record in gsub.FeatureList.FeatureRecord:
        if record.FeatureTag != "tnum":
            continue
        for index in record.Feature.LookupListIndex:
            for table in gsub.LookupList.Lookup[index].SubTable:
                forms.update(getattr(getattr(table, "ExtSubTable", table), "mapping", {}))
    return forms


def freeze(source, target, tabular):
    font = TTFont(source, recalcTimestamp=False)
    if tabular:
        forms = tabular_forms(font)
        for table in font["cmap"].tables:
            for code, name in table.cmap.items():
                if name in forms and chr(code) in TABULAR:
                    table.cmap[code] = forms[name]
        # Inter 3.19's tabular four is a hair narrower than its neighbours in Medium and SemiBold.
        best = font.getBestCmap()
        width = font["hmtx"][best[ord("0")]][0]
        for digit in "123456789":
            glyph = best[ord(digit)]
            font["hmtx"][glyph] = (width, font["hmtx"][glyph][1])
    options = subset.Options()
    options.layout_features = ["kern", "ccmp", "mark", "mkmk", "locl"]
    options.name_IDs = ["*"]
    options.notdef_outline = True
    options.hinting = True
    cut = subset.Subsetter(options)
    cut.populate(unicodes=[code for block in TEXT for code in block])
    cut.subset(font)
    font.save(target)
    print(f"{target.name}: {target.stat().st_size // 1024} KB")


def icons(phosphor):
    names = [line for line in (HERE / "icons.txt").read_text().split("\n") if line and not line.startswith("#")]
    rows = []
    for folder, file in (("regular", "Phosphor.ttf"), ("fill", "Phosphor-Fill.ttf")):
        fill = folder == "fill"
        listing = json.loads((phosphor / folder / "selection.json").read_text())
        # One glyph may carry several names, separated by commas.
        codes = {n.strip(): icon["properties"]["code"] for icon in listing["icons"] for n in icon["properties"]["name"].split(",")}
        wanted = [n for n in names if n.endswith("-fill") == fill]
        font = TTFont(phosphor / folder / file, recalcTimestamp=False)
        options = subset.Options()
        options.layout_features = []
        options.name_IDs = ["*"]
        options.notdef_outline = True
        cut = subset.Subsetter(options)
        cut.populate(unicodes=[codes[n] for n in wanted])
        cut.subset(font)
        # The published font says that every glyph's box starts at 0; a rasterizer that believes it
        # moves the drawing to the left edge of its square.
        for glyph in font.getGlyphOrder():
            drawing = font["glyf"][glyph]
            drawing.expand(font["glyf"])
            drawing.recalcBounds(font["glyf"])
            font["hmtx"][glyph] = (font["hmtx"][glyph][0], getattr(drawing, "xMin", 0))
        font.save(HERE / file)
        print(f"{file}: {len(wanted)} glyphs, {(HERE / file).stat().st_size // 1024} KB")
        rows += [(n, codes[n], fill) for n in wanted]
    variant = lambda n: re.sub(r"(^|-)(.)", lambda m: m[2].upper(), n)
    lines = ["// Written by assets/fonts/freeze.py from assets/fonts/icons.txt.", "icons! {"]
    lines += [f"    {variant(n)}, '\\u{{{code:x}}}', {str(fill).lower()}, \"{n}\";" for n, code, fill in rows]
    TABLE.write_text("\n".join(lines + ["}", ""]))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--fonts", type=pathlib.Path, default=pathlib.Path("/usr/share/fonts"), help="the system's font folder")
    arguments.add_argument("--phosphor", type=pathlib.Path, required=True, help="`src` of @phosphor-icons/web")
    given = arguments.parse_args()
    for weight in ("Regular", "Medium", "SemiBold", "Italic"):
        freeze(given.fonts / f"opentype/inter/Inter-{weight}.otf", HERE / f"Inter-{weight}.otf", True)
    for weight in ("Regular", "Medium"):
        freeze(given.fonts / f"truetype/jetbrains-mono/JetBrainsMono-{weight}.ttf", HERE / f"JetBrainsMono-{weight}.ttf", False)
    icons(given.phosphor)


if __name__ == "__main__":
    main()
