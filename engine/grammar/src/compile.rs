//! From what is asked of an answer to a grammar over a model's tokens.

use crate::{
    GrammarError, Matcher, Vocabulary,
    calls::{self, Function},
    gate::{Gate, Mode},
    schema,
};
use dspark_protocol::{AnswerRule, CallRule, Constraint, ReasoningSyntax, ToolSyntax};
use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Grammars that a vocabulary remembers: agents send the same one with every turn.
const REMEMBERED: usize = 8;
/// Between the parts of a JSON text: a space, or a new line with its indent. Models that are unsure of what comes next
/// otherwise write white space until the end of time.
const BLANK: &str = r"[ ]|\r?\n[ \t]{0,32}";

/// All that one constraint may take to compile, ...
const MOST: Duration = Duration::from_secs(8);
/// ... and what the last resort still gets.
const LEAST: Duration = Duration::from_secs(2);
/// Compilations at a time, those included that nobody waits for any more.
const STRAYS: usize = 8;
/// Schemas nest, and so does what compiles them.
const STACK: usize = 16 << 20;

/// A constraint, ready for any number of answers.
#[derive(Clone)]
pub struct Compiled(Arc<Inner>);

struct Inner {
    vocabulary: Arc<Vocabulary>,
    /// Fresh; a copy serves each answer, and they share what they learn of the grammar.
    matcher: llguidance::Matcher,
    mode: Mode,
    warnings: Vec<String>,
}

/// Where an answer begins.
#[derive(Debug, Clone, Default)]
pub struct Start<'a> {
    /// How the model sets its reasoning apart.
    pub reasoning: Option<ReasoningSyntax>,
    /// It may open a block of reasoning by itself.
    pub may_think: bool,
    /// The end of the rendered prompt, some hundred bytes.
    pub prompt: &'a str,
    /// What the prompt already holds of the answer, where it goes on with one.
    pub begun: &'a str,
}

#[derive(Default)]
pub(crate) struct Cache(Mutex<VecDeque<(String, Compiled)>>);

impl Cache {
    fn find(&self, key: &str) -> Option<Compiled> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(other, _)| other == key)?;
        let found = known.remove(at)?;
        let compiled = found.1.clone();
        known.push_front(found);
        Some(compiled)
    }

    fn keep(&self, key: String, compiled: &Compiled) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_front((key, compiled.clone()));
        known.truncate(REMEMBERED);
    }
}

/// Compiles a constraint for a model. `syntax` is how that model writes calls. Takes milliseconds as a rule and ten seconds at
/// most; keep it away from threads that must not wait.
///
/// # Errors
/// Those of a schema or a grammar that is broken or that nothing can follow. What merely cannot be enforced is a warning;
/// so is everything that is wrong with the schema of a tool, since agents cannot do anything about it.
pub fn compile(vocabulary: &Arc<Vocabulary>, constraint: &Constraint, syntax: Option<ToolSyntax>) -> Result<Compiled, GrammarError> {
    // Taught to models whose template knows no tools.
    let syntax = syntax.unwrap_or(ToolSyntax::Hermes);
    let key = format!("{syntax:?} {constraint:?}");
    if let Some(known) = vocabulary.cache.find(&key) {
        return Ok(known);
    }
    let compiled = Compiler {
        vocabulary,
        warnings: Vec::new(),
        tried: RefCell::default(),
        deadline: Instant::now() + MOST,
    }
    .run(constraint, syntax)?;
    vocabulary.cache.keep(key, &compiled);
    Ok(compiled)
}

struct Compiler<'a> {
    vocabulary: &'a Arc<Vocabulary>,
    warnings: Vec<String>,
    /// Patterns that were tried, and why one cannot be enforced: the same stands in many places.
    tried: RefCell<HashMap<String, Result<(), String>>>,
    deadline: Instant,
}

impl Compiler<'_> {
    fn run(mut self, constraint: &Constraint, syntax: ToolSyntax) -> Result<Compiled, GrammarError> {
        let (mut matcher, mode) = match (&constraint.answer, &constraint.calls) {
            (AnswerRule::Free | AnswerRule::Call, None) => return Err(GrammarError::NoCallForm),
            (answer, None) => (self.answer(answer)?, Mode::Whole),
            (AnswerRule::Call, Some(calls)) => (self.calls_alone(calls, syntax)?, Mode::Whole),
            (AnswerRule::Free, Some(calls)) => self.calls_in_text(calls, syntax)?,
            (answer, Some(calls)) => (self.answer_or_calls(answer, calls, syntax)?, Mode::Whole),
        };
        for warning in matcher.grammar_warnings() {
            self.warn(format!("the schema is not enforced in full: {}", warning.trim()));
        }
        Ok(Compiled(Arc::new(Inner {
            vocabulary: self.vocabulary.clone(),
            matcher,
            mode,
            warnings: self.warnings,
        })))
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// A grammar that the library takes. Its limits bound most of its work, but not all: what takes too long is left to
    /// itself, and counts as one that cannot be enforced.
    fn build(&self, grammar: TopLevelGrammar) -> Result<llguidance::Matcher, String> {
        let (send, built) = mpsc::sync_channel(1);
        let vocabulary = self.vocabulary.clone();
        if Arc::strong_count(&vocabulary.at_work) > STRAYS {
            return Err("other schemas still keep the compiler busy".into());
        }
        let at_work = vocabulary.at_work.clone();
        let work = move || {
            let matcher = build(&vocabulary, grammar);
            drop(at_work);
            let _ = send.send(matcher);
        };
        let left = self.deadline.saturating_duration_since(Instant::now()).max(LEAST);
        let spawned = thread::Builder::new().name("grammar".into()).stack_size(STACK).spawn(work);
        spawned.map_err(|error| format!("no thread to compile it with: {error}"))?;
        built.recv_timeout(left).unwrap_or_else(|error| match error {
            mpsc::RecvTimeoutError::Timeout => Err("it takes too long to compile".into()),
            mpsc::RecvTimeoutError::Disconnected => Err("the library failed on it".into()),
        })
    }

    /// Whether a regular expression can be enforced inside a string.
    fn readable(&self, pattern: &str) -> Result<(), String> {
        if let Some(known) = self.tried.borrow().get(pattern) {
            return known.clone();
        }
        let read = self.try_pattern(pattern);
        self.tried.borrow_mut().insert(pattern.to_owned(), read.clone());
        read
    }

    fn try_pattern(&self, pattern: &str) -> Result<(), String> {
        let schema = json!({ "type": "string", "pattern": pattern });
        match self.build(TopLevelGrammar::from_json_schema(schema)) {
            Ok(_) => Ok(()),
            // Nothing matches it: that is for the schema as a whole to say.
            Err(error) if error.contains("Unsatisfiable") => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn answer(&mut self, answer: &AnswerRule) -> Result<llguidance::Matcher, GrammarError> {
        match answer {
            AnswerRule::Regex(regex) => self
                .build(TopLevelGrammar::from_regex(regex))
                .map_err(|problem| GrammarError::Grammar {
                    kind: "regular expression",
                    problem,
                }),
            AnswerRule::Lark(lark) => self
                .build(TopLevelGrammar::from_lark(lark.clone()))
                .map_err(|problem| GrammarError::Grammar { kind: "grammar", problem }),
            AnswerRule::Schema(schema) => {
                let fitted = self.fit(schema, "")?;
                self.degrading(fitted, &|schema| TopLevelGrammar::from_json_schema(schema.clone()))
            }
            _ => self
                .build(TopLevelGrammar::from_json_schema(guided(&json!({"type": "object"}))))
                .map_err(GrammarError::Lost),
        }
    }

    fn fit(&mut self, schema: &Value, base: &str) -> Result<Value, GrammarError> {
        let fitted = schema::fit(schema, base, &|pattern| self.readable(pattern))?;
        fitted.warnings.into_iter().for_each(|warning| self.warn(warning));
        Ok(fitted.schema)
    }

    /// The strictest of: the whole schema, without its bounds, any JSON of its type.
    fn degrading(&mut self, schema: Value, grammar: &dyn Fn(&Value) -> TopLevelGrammar) -> Result<llguidance::Matcher, GrammarError> {
        let first = match self.build(grammar(&guided(&schema))) {
            Ok(matcher) => return Ok(matcher),
            Err(error) => error,
        };
        if let Some((_, cause)) = first.split_once("Unsatisfiable schema: ") {
            return Err(GrammarError::Unsatisfiable(cause.trim().to_owned()));
        }
        if let Ok(matcher) = self.build(grammar(&guided(&schema::without_bounds(&schema)))) {
            self.warn(format!("the JSON schema's bounds, patterns and formats are not enforced: {first}"));
            return Ok(matcher);
        }
        let kind = schema.get("type").cloned().unwrap_or_else(|| json!("object"));
        self.warn(format!("the JSON schema is not enforced beyond its outermost type: {first}"));
        self.build(grammar(&guided(&json!({ "type": kind }))))
            .map_err(|_| GrammarError::Unsatisfiable(first))
    }

    /// Functions with what of their schemas can be enforced.
    fn functions(&mut self, calls: &CallRule, syntax: ToolSyntax) -> Vec<Function> {
        let fit = |(index, tool): (usize, &dspark_protocol::ToolRule)| {
            let open = || json!({"type": "object"});
            let place = calls::json_place(syntax, index);
            let fitted = schema::fit(&tool.parameters, &place, &|pattern| self.readable(pattern));
            let (parameters, problem) = match fitted {
                Ok(fitted) => {
                    for warning in fitted.warnings {
                        self.warn(format!("of the function `{}`, {warning}", tool.name));
                    }
                    let trial = guided(&json!({"anyOf": [fitted.schema.clone()]}));
                    // References lead to the schema's final place, so they cannot be tried alone.
                    let alone = !fitted.schema.to_string().contains("\"$ref\"");
                    match alone.then(|| self.build(TopLevelGrammar::from_json_schema(trial))) {
                        Some(Err(problem)) => (open(), Some(problem)),
                        _ => (fitted.schema, None),
                    }
                }
                Err(error) => (open(), Some(error.to_string())),
            };
            if let Some(problem) = problem {
                self.warn(format!("the schema of the function `{}` is not enforced: {problem}", tool.name));
            }
            let parameters = if parameters.is_object() { parameters } else { open() };
            Function {
                name: tool.name.clone(),
                parameters,
            }
        };
        calls.tools.iter().enumerate().map(fit).collect()
    }

    /// Calls, with all schemas if that can be had, else with the names alone.
    fn with_calls(
        &mut self,
        calls: &CallRule,
        syntax: ToolSyntax,
        grammar: &dyn Fn(&calls::Form) -> String,
    ) -> Result<(llguidance::Matcher, calls::Form), GrammarError> {
        let functions = self.functions(calls, syntax);
        let form = calls::form(self.vocabulary, syntax, &functions, calls.many).ok_or(GrammarError::NoCallForm)?;
        let problem = match self.build(TopLevelGrammar::from_lark(grammar(&form))) {
            Ok(matcher) => return Ok((matcher, form)),
            Err(problem) => problem,
        };
        self.warn(format!(
            "the schemas of the functions are not enforced, only their names: {problem}"
        ));
        let open = |function: Function| Function {
            parameters: json!({"type": "object"}),
            ..function
        };
        let functions: Vec<Function> = functions.into_iter().map(open).collect();
        let form = calls::form(self.vocabulary, syntax, &functions, calls.many).ok_or(GrammarError::NoCallForm)?;
        let matcher = self
            .build(TopLevelGrammar::from_lark(grammar(&form)))
            .map_err(|problem| GrammarError::Grammar {
                kind: "form of the calls",
                problem,
            })?;
        Ok((matcher, form))
    }

    fn calls_alone(&mut self, calls: &CallRule, syntax: ToolSyntax) -> Result<llguidance::Matcher, GrammarError> {
        let many = calls.many;
        let vocabulary = self.vocabulary.clone();
        let grammar = |form: &calls::Form| format!("start: {}\n{}", opened(&vocabulary, form, many), form.rules);
        Ok(self.with_calls(calls, syntax, &grammar)?.0)
    }

    fn calls_in_text(&mut self, calls: &CallRule, syntax: ToolSyntax) -> Result<(llguidance::Matcher, Mode), GrammarError> {
        let many = calls.many;
        let grammar = |form: &calls::Form| {
            let times = if many { "+" } else { "" };
            format!("start: call{times}\n{}", form.rules)
        };
        let (matcher, form) = self.with_calls(calls, syntax, &grammar)?;
        if form.open.is_empty() {
            return Err(GrammarError::NoCallForm);
        }
        Ok((matcher, Mode::Opened { open: form.open, many }))
    }

    fn answer_or_calls(&mut self, answer: &AnswerRule, calls: &CallRule, syntax: ToolSyntax) -> Result<llguidance::Matcher, GrammarError> {
        let many = calls.many;
        let schema = match answer {
            AnswerRule::Schema(schema) => self.fit(schema, "")?,
            AnswerRule::Object => json!({"type": "object"}),
            _ => {
                return Err(GrammarError::Grammar {
                    kind: "grammar",
                    problem: "it cannot be combined with calls of tools".into(),
                });
            }
        };
        // What is wrong with the answer's own schema is told before the calls blur it.
        self.degrading(schema.clone(), &|schema| TopLevelGrammar::from_json_schema(schema.clone()))?;
        let answer = guided(&schema);
        let vocabulary = self.vocabulary.clone();
        let grammar = |form: &calls::Form| {
            let calls = opened(&vocabulary, form, many);
            format!("start: answer | {calls}\nanswer: %json {answer}\n{}", form.rules)
        };
        Ok(self.with_calls(calls, syntax, &grammar)?.0)
    }
}

/// Calls with what opens them.
fn opened(vocabulary: &Vocabulary, form: &calls::Form, many: bool) -> String {
    let times = if many && !form.list && !form.open.is_empty() { "+" } else { "" };
    if form.open.is_empty() {
        "call".into()
    } else {
        format!("({} call){times}", calls::mark(vocabulary, form.open))
    }
}

/// Puts the library's own options into a schema.
pub(crate) fn guide(schema: &mut Value) {
    if let Value::Object(map) = schema {
        map.insert(
            "x-guidance".into(),
            json!({"whitespace_flexible": true, "whitespace_pattern": BLANK, "lenient": true, "coerce_one_of": true}),
        );
    }
}

fn guided(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Bool(true) => json!({}),
        other => other.clone(),
    };
    guide(&mut schema);
    schema
}

fn build(vocabulary: &Vocabulary, grammar: TopLevelGrammar) -> Result<llguidance::Matcher, String> {
    let parser = catch_unwind(AssertUnwindSafe(|| vocabulary.factory.create_parser(grammar)))
        .map_err(|_| "the library failed on it".to_owned())?
        .map_err(|error| first_line(&format!("{error:#}")))?;
    let mut matcher = llguidance::Matcher::new(Ok(parser));
    // A grammar without any text shows only here.
    match matcher.compute_mask_or_eos() {
        Ok(_) => Ok(matcher),
        Err(_) if matcher.get_error().is_some_and(|error| error.contains("NoExtension")) => {
            Err("Unsatisfiable schema: no text follows the grammar".into())
        }
        Err(error) => Err(first_line(&error.to_string())),
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    line.chars().take(300).collect()
}

impl Compiled {
    /// What of the constraint is not enforced.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// Whether it is the same one, not merely equal.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.0.vocabulary
    }

    /// The state of an answer that is about to begin.
    pub fn matcher(&self, start: &Start<'_>) -> Matcher {
        let gate = Gate::new(&self.0.mode, start);
        Matcher::new(self.vocabulary().clone(), self.0.matcher.clone(), gate, start.begun)
    }
}
