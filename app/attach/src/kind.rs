//! What a file is, by its name and its first bytes.

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// With the word that stands after a code fence.
    Code(&'static str),
    Table(&'static str),
    Pdf,
}

/// Endings, and the language that a fence names.
const CODE: [(&str, &str); 44] = [
    ("rs", "rust"),
    ("py", "python"),
    ("js", "javascript"),
    ("mjs", "javascript"),
    ("jsx", "jsx"),
    ("ts", "typescript"),
    ("tsx", "tsx"),
    ("swift", "swift"),
    ("m", "objectivec"),
    ("mm", "objectivec"),
    ("c", "c"),
    ("h", "c"),
    ("cpp", "cpp"),
    ("cc", "cpp"),
    ("hpp", "cpp"),
    ("cs", "csharp"),
    ("java", "java"),
    ("kt", "kotlin"),
    ("go", "go"),
    ("rb", "ruby"),
    ("php", "php"),
    ("sh", "bash"),
    ("zsh", "bash"),
    ("bash", "bash"),
    ("ps1", "powershell"),
    ("sql", "sql"),
    ("html", "html"),
    ("css", "css"),
    ("scss", "scss"),
    ("xml", "xml"),
    ("json", "json"),
    ("jsonl", "json"),
    ("yaml", "yaml"),
    ("yml", "yaml"),
    ("toml", "toml"),
    ("ini", "ini"),
    ("lua", "lua"),
    ("r", "r"),
    ("jl", "julia"),
    ("tex", "latex"),
    ("diff", "diff"),
    ("patch", "diff"),
    ("metal", "cpp"),
    ("cu", "cpp"),
];

impl Kind {
    pub(super) fn of_name(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let ending = lower.rsplit_once('.').map_or("", |(_, ending)| ending);
        match (lower.as_str(), ending) {
            ("dockerfile" | "makefile", _) => Self::Code(if lower == "makefile" { "makefile" } else { "dockerfile" }),
            (_, "pdf") => Self::Pdf,
            (_, "csv") => Self::Table("csv"),
            (_, "tsv") => Self::Table("tsv"),
            (_, ending) => (CODE.iter().find(|(known, _)| *known == ending)).map_or(Self::Text, |(_, language)| Self::Code(language)),
        }
    }

    /// The word after a fence.
    pub fn language(self) -> &'static str {
        match self {
            Self::Text | Self::Pdf => "",
            Self::Code(language) | Self::Table(language) => language,
        }
    }
}

/// Known pictures, by their first bytes; SVG is text but seldom meant as such.
pub(super) fn is_picture(name: &str, bytes: &[u8]) -> bool {
    const MARKS: [&[u8]; 7] = [b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"icns"];
    let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let heic = bytes.get(4..8) == Some(b"ftyp")
        && bytes
            .get(8..11)
            .is_some_and(|brand| [b"hei", b"avi", b"mif"].contains(&brand.try_into().unwrap_or(b"   ")));
    // "BM" begins words, too.
    let bitmap = bytes.starts_with(b"BM") && !(name.rsplit_once('.')).is_some_and(|(_, ending)| ending.eq_ignore_ascii_case("bmp"));
    (MARKS.iter().any(|mark| bytes.starts_with(mark)) && !bitmap) || webp || heic
}
