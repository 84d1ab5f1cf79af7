//! Turns the English catalogue into Rust: a constant for every plain message, a struct with named fields for every
//! message with arguments. A typo in a key, a missing or a surplus argument is then an error of the compiler.

use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement};
use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

const LANGUAGES: [&str; 4] = ["en", "zh-Hans", "ja", "de"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../assets/strings");
    let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
    println!("cargo:rerun-if-changed={}", root.display());
    let files = catalogues(&root.join("en"))?;
    let (mut plain, mut with) = (String::new(), String::new());
    let mut ids = Vec::new();
    for file in &files {
        let source = fs::read_to_string(root.join("en").join(file))?;
        let resource = fluent_syntax::parser::parse(source.as_str()).map_err(|(_, errors)| format!("en/{file}: {errors:?}"))?;
        for entry in &resource.body {
            let Entry::Message(message) = entry else { continue };
            let id = message.id.name;
            let pattern = message.value.as_ref().ok_or_else(|| format!("en/{file}: `{id}` says nothing"))?;
            let mut arguments = BTreeSet::new();
            variables(pattern, &mut arguments);
            let name = id.replace('-', "_");
            if arguments.is_empty() {
                writeln!(plain, "    pub const {name}: Key = Key({});", ids.len())?;
                ids.push(id.to_owned());
            } else {
                writeln!(with, "    pub struct {name}<'a> {{")?;
                for argument in &arguments {
                    writeln!(with, "        pub {argument}: Value<'a>,")?;
                }
                writeln!(with, "    }}\n    impl {name}<'_> {{\n        pub fn text(self) -> String {{")?;
                let list: Vec<String> = arguments.iter().map(|name| format!("({name:?}, self.{name})")).collect();
                writeln!(
                    with,
                    "            crate::catalogue::format({id:?}, [{}])\n        }}\n    }}",
                    list.join(", ")
                )?;
            }
        }
    }
    let mut out = String::new();
    writeln!(
        out,
        "/// Plain messages.\n#[allow(non_upper_case_globals, missing_docs)]\npub mod keys {{\n    use crate::Key;\n{plain}}}"
    )?;
    writeln!(
        out,
        "/// Messages with arguments.\n#[allow(non_camel_case_types, missing_docs)]\npub mod args {{\n    use crate::Value;\n{with}}}"
    )?;
    writeln!(
        out,
        "/// Ids of the plain messages, by key.\npub(crate) static PLAIN: [&str; {}] = {ids:?};",
        ids.len()
    )?;
    writeln!(
        out,
        "/// The catalogues: languages in the order of `Language::ALL`, each in parts.\npub(crate) static SOURCES: [&[(&str, &str)]; {}] = [",
        LANGUAGES.len()
    )?;
    for language in LANGUAGES {
        let folder = root.join(language);
        write!(out, "    &[")?;
        for file in catalogues(&folder)? {
            write!(
                out,
                "({:?}, include_str!({:?})), ",
                format!("{language}/{file}"),
                folder.join(&file).display().to_string()
            )?;
        }
        writeln!(out, "],")?;
    }
    writeln!(out, "];")?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("messages.rs"), out)?;
    Ok(())
}

/// Names of the parts of a catalogue, in order.
fn catalogues(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|ending| ending == "ftl") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn variables(pattern: &Pattern<&str>, out: &mut BTreeSet<String>) {
    for element in &pattern.elements {
        if let PatternElement::Placeable { expression } = element {
            in_expression(expression, out);
        }
    }
}

fn in_expression(expression: &Expression<&str>, out: &mut BTreeSet<String>) {
    match expression {
        Expression::Inline(inline) => in_inline(inline, out),
        Expression::Select { selector, variants } => {
            in_inline(selector, out);
            for variant in variants {
                variables(&variant.value, out);
            }
        }
    }
}

fn in_inline(inline: &InlineExpression<&str>, out: &mut BTreeSet<String>) {
    match inline {
        InlineExpression::VariableReference { id } => {
            out.insert(id.name.to_owned());
        }
        InlineExpression::Placeable { expression } => in_expression(expression, out),
        InlineExpression::FunctionReference { arguments, .. } => {
            for argument in &arguments.positional {
                in_inline(argument, out);
            }
        }
        _ => {}
    }
}
