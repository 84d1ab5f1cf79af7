use super::*;
use proptest::prelude::*;

/// A page that says `words`, or shows nothing.
fn pdf(words: &str) -> Vec<u8> {
    let stream = if words.is_empty() {
        String::new()
    } else {
        format!("BT /F1 12 Tf 72 700 Td ({words}) Tj ET")
    };
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".into(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".into(),
        format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".into(),
    ];
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        file.extend(format!("{} 0 obj\n{object}\nendobj\n", at + 1).bytes());
    }
    let xref = file.len();
    file.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        file.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    file.extend(format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{xref}\n%%EOF", objects.len() + 1).bytes());
    file
}

#[test]
fn code_and_tables_get_their_fences() {
    let rust = read("/home/me/src/main.rs", b"fn main() {}\n").unwrap();
    assert_eq!((rust.name.as_str(), rust.kind), ("main.rs", Kind::Code("rust")));
    let table = read(r"C:\data\Budget.CSV", b"a;b\r\n1;2\r\n").unwrap();
    assert_eq!(
        (table.name.as_str(), table.kind, table.text.as_str()),
        ("Budget.CSV", Kind::Table("csv"), "a;b\n1;2\n")
    );
    assert_eq!(read("Makefile", b"all:\n").unwrap().kind, Kind::Code("makefile"));
    assert_eq!(read("notes", b"BMW drives\n").unwrap().kind, Kind::Text);
    assert_eq!(rust.lines(), 1);
}

#[test]
fn a_fence_is_longer_than_any_inside() {
    let file = read("readme.md", b"```rust\nlet x = 1;\n```\nand ````\n").unwrap();
    assert!(file.inlined().starts_with("File `readme.md`:\n\n`````\n```rust"));
    assert!(file.inlined().ends_with("````\n`````"));
    let both = message(&[file.clone(), Attachment::pasted("x")], "What is this?");
    assert!(both.ends_with("File `Pasted text`:\n\n```\nx\n```\n\nWhat is this?"), "{both}");
    assert_eq!(message(&[], "Hello"), "Hello");
    assert_eq!(message(std::slice::from_ref(&file), "  "), file.inlined());
}

#[test]
fn encodings_are_told_apart() {
    assert_eq!(read("a.txt", "\u{feff}größe".as_bytes()).unwrap().text, "größe");
    let wide: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain("größe 日本".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    assert_eq!(read("a.txt", &wide).unwrap().text, "größe 日本");
    let big: Vec<u8> = [0xfe, 0xff]
        .into_iter()
        .chain("größe".encode_utf16().flat_map(u16::to_be_bytes))
        .collect();
    assert_eq!(read("a.txt", &big).unwrap().text, "größe");
    assert_eq!(read("a.txt", b"na\xefve \x93quoted\x94 \x80 5").unwrap().text, "naïve “quoted” € 5");
}

#[test]
fn what_is_not_text_is_refused_by_name() {
    assert_eq!(read("a.png", b"\x89PNG\r\n\x1a\n...."), Err(AttachError::Picture("a.png".into())));
    assert_eq!(
        read("b.heic", b"\0\0\0\x18ftypheic...."),
        Err(AttachError::Picture("b.heic".into()))
    );
    assert_eq!(read("a.zip", b"PK\x03\x04\0\0\0\0"), Err(AttachError::Binary("a.zip".into())));
    assert_eq!(read("a.txt", b""), Err(AttachError::Empty("a.txt".into())));
    assert_eq!(read("a.txt", b" \n\n"), Err(AttachError::Empty("a.txt".into())));
    let error = read("big.log", &vec![b'a'; LIMIT_BYTES + 1]).unwrap_err();
    assert!(error.to_string().contains("21 MB; at most 20"), "{error}");
    assert!(read("a.png", b"\x89PNG....").unwrap_err().to_string().contains("text alone"));
}

#[test]
fn a_pdf_gives_its_text_layer() {
    let file = read("letter.pdf", &pdf("Dear reader, the roof line is low.")).unwrap();
    assert_eq!((file.kind, file.text.as_str()), (Kind::Pdf, "Dear reader, the roof line is low."));
    assert_eq!(read("scan.pdf", &pdf("")), Err(AttachError::NoText("scan.pdf".into())));
    let error = read("cut.pdf", &pdf("x")[..200]).unwrap_err();
    assert!(matches!(error, AttachError::BrokenPdf { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(name in "[a-zA-Z./`]{0,12}", bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(file) = read(&name, &bytes) {
            let inlined = file.inlined();
            let fence = inlined.rsplit('\n').next().unwrap_or_default();
            prop_assert!(fence.len() >= 3 && fence.chars().all(|c| c == '`'));
            prop_assert!(!file.text.contains(fence));
        }
    }

    /// A PDF with any byte changed, or cut anywhere.
    #[test]
    fn damaged_pdfs_are_errors(at in 0..700_usize, byte: u8, cut in 0..700_usize) {
        let mut file = pdf("Some words");
        let length = file.len();
        file[at % length] = byte;
        let _ = read("x.pdf", &file);
        let _ = read("x.pdf", &file[..cut.min(length)]);
    }
}

#[test]
fn a_message_comes_apart_again() {
    let files = [
        read("a.rs", b"let x = \"```\";").unwrap(),
        Attachment::pasted("one\n\ntwo"),
        read("b.csv", b"1,2\n").unwrap(),
    ];
    let text = message(&files, "Compare these.\n\nFile `c`: none");
    let (found, words) = split(&text);
    assert_eq!(words, "Compare these.\n\nFile `c`: none");
    let names: Vec<&str> = found.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["a.rs", "Pasted text", "b.csv"]);
    assert_eq!(
        (found[0].text.as_str(), found[1].text.as_str(), found[2].kind),
        ("let x = \"```\";", "one\n\ntwo", Kind::Table("csv"))
    );
    for plain in ["Hello", "File `x`: y", "File `x`:\n\n```\nnever closed", ""] {
        assert_eq!(split(plain), (Vec::new(), plain));
    }
    assert_eq!(split(&message(&files, "")).1, "");
}
