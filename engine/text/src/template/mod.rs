//! Chat templates with the semantics of Hugging Face `transformers`: Jinja with trimmed blocks, loop controls, Python's
//! string methods and JSON. A template comes with a model and is not trusted: work, memory and output are bounded.

#[cfg(test)]
mod parity;
pub(crate) mod python;
pub(crate) mod source;
mod written;

use crate::{Result, TextError};
use minijinja::{Environment, ErrorKind, Value, syntax::SyntaxConfig};
use std::io;

/// Work for a conversation of no length: about a second at most. One unit is an instruction or 64 bytes of data, so
/// this also bounds memory.
const FUEL: u64 = 2_000_000;
/// Bytes of output beyond what the conversation itself accounts for.
const OUTPUT: usize = 4 << 20;
/// A template larger than this is not one.
const SOURCE: usize = 1 << 20;
const NAME: &str = "chat template";

/// A compiled chat template.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    env: Environment<'static>,
    source: String,
}

impl ChatTemplate {
    /// # Errors
    /// [`TextError::Template`] with the syntax error.
    pub(crate) fn compile(source: &str, clock: python::Clock) -> Result<Self> {
        if source.len() > SOURCE {
            return Err(TextError::TemplateLimit {
                limit: format!("{} KiB of source", SOURCE >> 10),
            });
        }
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        env.set_syntax(syntax.map_err(|error| words(&error))?);
        env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        env.set_recursion_limit(150);
        python::install(&mut env, clock);
        let source = source::without_generation_tags(source).into_owned();
        env.add_template_owned(NAME, source.clone()).map_err(|error| words(&error))?;
        Ok(Self { env, source })
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Renders with `context`; `input` is the number of bytes that the conversation holds, and raises the limits.
    ///
    /// # Errors
    /// [`TextError::Template`] with the template's words, [`TextError::TemplateLimit`].
    pub(crate) fn render(&self, context: Value, input: usize) -> Result<String> {
        let mut env = self.env.clone();
        env.set_fuel(Some(FUEL + input as u64));
        let template = env.get_template(NAME).map_err(|error| words(&error))?;
        let limit = OUTPUT + 8 * input;
        let mut out = Bounded {
            bytes: Vec::new(),
            limit,
            full: false,
        };
        match template.render_captured_to(context, &mut out) {
            Ok(_) => Ok(String::from_utf8_lossy(&out.bytes).into_owned()),
            Err(_) if out.full => Err(TextError::TemplateLimit {
                limit: format!("{} MiB of output", limit >> 20),
            }),
            Err(error) => Err(words(&error)),
        }
    }
}

struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the template itself says; for other errors what went wrong and on which line.
fn words(error: &minijinja::Error) -> TextError {
    let mut cause: &dyn std::error::Error = error;
    loop {
        if let Some(error) = cause.downcast_ref::<minijinja::Error>() {
            if error.kind() == ErrorKind::OutOfFuel {
                return TextError::TemplateLimit {
                    limit: "about a second of work".to_owned(),
                };
            }
            let raised = std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<python::Raised>);
            if raised {
                return TextError::Template(error.detail().unwrap_or_default().to_owned());
            }
        }
        match cause.source() {
            Some(next) => cause = next,
            None => break,
        }
    }
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let line = error
        .line()
        .map(|line| format!(" (line {line} of the template)"))
        .unwrap_or_default();
    TextError::Template(format!("{}{detail}{line}", error.kind()))
}
