/// A title from the first line a person wrote: trimmed, without markdown marks, cut at a word.
pub fn auto_title(text: &str) -> String {
    const LONGEST: usize = 44;
    let line = text
        .lines()
        .map(|line| line.trim().trim_start_matches(['#', '>', '*', '-', '`']).trim())
        .find(|line| !line.is_empty())
        .unwrap_or("");
    let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ").replace(['`', '*'], "");
    if line.is_empty() {
        return "New chat".into();
    }
    if line.chars().count() <= LONGEST {
        return line.trim_end_matches(['.', '。', ':']).into();
    }
    let cut: String = line.chars().take(LONGEST).collect();
    // A word boundary in the last third, where the script has any.
    let end = cut
        .rfind(char::is_whitespace)
        .filter(|at| cut[..*at].chars().count() > LONGEST * 2 / 3)
        .unwrap_or(cut.len());
    format!("{}…", cut[..end].trim_end_matches([' ', ',', ';', '.', '、', '，']))
}

#[cfg(test)]
mod tests {
    use super::auto_title;

    #[test]
    fn first_line_with_words() {
        assert_eq!(auto_title("\n\n# Explain RoPE scaling.\nmore"), "Explain RoPE scaling");
        assert_eq!(auto_title("  \n"), "New chat");
        assert_eq!(auto_title("```rust\nfn main() {}\n```"), "rust");
    }

    #[test]
    fn long_lines_end_at_a_word() {
        let title = auto_title("Pick the most meetings that don't overlap from a list of spans, please");
        assert_eq!(title, "Pick the most meetings that don't overlap…");
        let cjk = auto_title(&"世界".repeat(60));
        assert_eq!(cjk.chars().count(), 45);
    }
}
