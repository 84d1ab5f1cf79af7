//! Will it fit? The sum behind the verdict, so that both can be shown. Source: `spec/fit-and-roofline.md` §1–5.
//!
//! Bytes throughout; GB is 10⁹ and GiB 2³⁰.

use serde::Serialize;
use serde_json::Value;

const GB: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;
/// Tokens of prompt per prefill step, which sets the size of the intermediate results.
const PREFILL_CHUNK: u64 = 512;
/// The context a typical kept prefix has, tokens.
const TYPICAL: u64 = 8192;
/// A context shorter than this is not worth loading a model for, tokens.
const LEAST: u64 = 8192;

/// Bits per weight including scales and biases. `affine` has a 16-bit scale and bias per group, `mxfp4` and `nvfp4` an
/// 8-bit scale; 16 bits and more are stored plainly.
pub fn effective_bits(bits: u32, group_size: u32, mode: &str) -> f64 {
    let per_group = match mode {
        _ if bits >= 16 => 0.0,
        "affine" => 32.0,
        _ => 8.0,
    };
    f64::from(bits) + per_group / f64::from(group_size.max(1))
}

/// What a model needs, from its config.json and the size of its weights.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Model {
    pub weight_bytes: u64,
    /// Resident bytes of its drafter, 0 without.
    pub drafter_bytes: u64,
    /// None where the config does not tell: the KV cache is then left out and the verdict says so.
    pub kv_per_token: Option<u64>,
    pub drafter_kv_per_token: u64,
    /// Bytes of the drafter's own windowed layers per position, and their window.
    pub drafter_window: Option<(u64, u64)>,
    /// Bytes of sliding-window layers per position, and their window.
    pub window: Option<(u64, u64)>,
    /// Bytes of recurrent state per sequence.
    pub recurrent: u64,
    pub intermediate: u64,
    /// The window it was trained for, tokens.
    pub max_context: Option<u64>,
}

impl Model {
    /// Reads the dimensions from `config` (`text_config` first), with the KV cache at `kv_bits` (16, 8 or 4).
    pub fn from_config(config: &Value, weight_bytes: u64, kv_bits: u32) -> Self {
        let text = [&config["text_config"], config];
        let uint = |key: &str| text.iter().find_map(|c| c[key].as_u64());
        Self {
            weight_bytes,
            kv_per_token: kv_per_token(config, kv_bits),
            window: text.iter().find_map(|c| window(c)),
            recurrent: text.iter().map(|c| recurrent(c)).max().unwrap_or(0),
            intermediate: uint("intermediate_size").unwrap_or(0),
            max_context: uint("max_position_embeddings"),
            ..Self::default()
        }
    }

    /// Bytes of cache for `context` tokens of one conversation.
    pub fn kv(&self, context: u64) -> u64 {
        self.target_kv(context)
            .saturating_add(self.drafter_kv(context))
            .saturating_add(self.recurrent)
    }

    /// Of that, the target's rows.
    pub fn target_kv(&self, context: u64) -> u64 {
        rows(self.kv_per_token.unwrap_or(0), self.window, context)
    }

    /// Of that, what the drafter keeps of the same tokens.
    pub fn drafter_kv(&self, context: u64) -> u64 {
        rows(self.drafter_kv_per_token, self.drafter_window, context)
    }

    /// Contexts to show this model at, ascending: powers of two apart, at most about 64, the model's own maximum last.
    /// None where the maximum is not known.
    pub fn stops(&self) -> Vec<u64> {
        let Some(most) = self.max_context.filter(|most| *most > 0) else {
            return Vec::new();
        };
        let step = (most / 64).next_power_of_two().max(1024);
        let mut stops: Vec<u64> = (1..=most / step).map(|at| at * step).collect();
        if stops.last() != Some(&most) {
            stops.push(most);
        }
        stops
    }
}

fn rows(growing: u64, window: Option<(u64, u64)>, context: u64) -> u64 {
    let windowed = window.map_or(0, |(bytes, window)| bytes.saturating_mul(context.min(window)));
    context.saturating_mul(growing).saturating_add(windowed)
}

/// KV cache bytes per token of context of the layers whose cache grows; none where the config does not tell.
pub fn kv_per_token(config: &Value, kv_bits: u32) -> Option<u64> {
    let element = if kv_bits >= 16 { 2.0 } else { (f64::from(kv_bits) + 0.5) / 8.0 };
    [&config["text_config"], config]
        .iter()
        .find_map(|c| Some((Dims::read(c)?.growing_row() * element) as u64))
}

/// A config's dimensions as floats: a hostile one then saturates instead of overflowing.
struct Dims<'a> {
    config: &'a Value,
    layers: f64,
    kv_heads: f64,
    head_dim: f64,
}

impl<'a> Dims<'a> {
    fn read(config: &'a Value) -> Option<Self> {
        let dims = |key: &str| number(config, key);
        let (layers, heads) = (dims("num_hidden_layers")?, dims("num_attention_heads")?);
        Some(Self {
            config,
            layers,
            kv_heads: dims("num_key_value_heads").unwrap_or(heads),
            head_dim: dims("head_dim")
                .or_else(|| dims("hidden_size").map(|hidden| (hidden / heads).floor()))
                .filter(|n| *n > 0.0)?,
        })
    }

    /// Elements that one more token adds to the cache.
    fn growing_row(&self) -> f64 {
        let dims = |key: &str| number(self.config, key);
        // Latent attention keeps one compressed row per layer.
        if let Some(rank) = dims("kv_lora_rank") {
            return (rank + dims("qk_rope_head_dim").unwrap_or(0.0)) * self.layers;
        }
        // Layers that are run several times keep a cache for each time.
        let loops = self.config["loop_loss_weights"]
            .as_array()
            .filter(|list| !list.is_empty())
            .map(|list| list.len() as f64 + 1.0)
            .or_else(|| dims("num_loops"))
            .unwrap_or(1.0);
        // Gemma 4 has other heads in its full-attention layers.
        let kv_heads = dims("num_global_key_value_heads").unwrap_or(self.kv_heads);
        let head_dim = dims("global_head_dim").unwrap_or(self.head_dim);
        self.layers_of(&["full_attention", "attention"]) * loops * kv_heads * head_dim * 2.0
    }

    /// How many layers with a cache of their own are of these kinds, for attention kinds that grow.
    fn layers_of(&self, kinds: &[&str]) -> f64 {
        let list = self.config["layer_types"]
            .as_array()
            .or_else(|| self.config["layers_block_type"].as_array());
        if let Some(list) = list {
            // The last layers may reuse the keys and values of earlier ones.
            let shared = self.config["num_kv_shared_layers"].as_u64().unwrap_or(0) as usize;
            let own = &list[..list.len().saturating_sub(shared)];
            return own.iter().filter_map(Value::as_str).filter(|kind| kinds.contains(kind)).count() as f64;
        }
        if !kinds.contains(&"full_attention") {
            return 0.0;
        }
        if let Some(pattern) = self.config["hybrid_override_pattern"].as_str() {
            return pattern.matches('*').count() as f64;
        }
        (self.layers / number(self.config, "full_attention_interval").unwrap_or(1.0)).floor()
    }
}

fn number(config: &Value, key: &str) -> Option<f64> {
    config[key].as_u64().filter(|n| *n > 0).map(|n| n as f64)
}

fn window(config: &Value) -> Option<(u64, u64)> {
    let window = config["sliding_window"].as_u64().filter(|n| *n > 0)?;
    let dims = Dims::read(config)?;
    let layers = dims.layers_of(&["sliding_attention"]);
    (layers > 0.0).then_some(((layers * dims.kv_heads * dims.head_dim * 4.0) as u64, window))
}

/// State that does not grow: gated delta-net, Mamba 2 and short convolutions.
fn recurrent(config: &Value) -> u64 {
    let Some(dims) = Dims::read(config) else { return 0 };
    let get = |key: &str| number(config, key).unwrap_or(0.0);
    let (values, keys) = (get("linear_num_value_heads"), get("linear_num_key_heads"));
    let (key_dim, value_dim) = (get("linear_key_head_dim"), get("linear_value_head_dim"));
    let tail = (get("linear_conv_kernel_dim") - 1.0).max(0.0) * (2.0 * keys * key_dim + values * value_dim) * 2.0;
    let delta_net = if values > 0.0 {
        (dims.layers - dims.layers_of(&["full_attention", "attention"])) * (values * key_dim * value_dim * 4.0 + tail)
    } else {
        0.0
    };
    let mamba_layers = config["hybrid_override_pattern"].as_str().map_or_else(
        || dims.layers_of(&["mamba", "linear_attention"]),
        |pattern| pattern.matches('M').count() as f64,
    );
    let mamba = mamba_layers * get("mamba_num_heads") * get("mamba_head_dim") * get("ssm_state_size") * 4.0;
    let short = dims.layers_of(&["conv"]) * (get("conv_L_cache") - 1.0).max(0.0) * get("hidden_size") * 2.0;
    (delta_net + mamba + short) as u64
}

/// The machine, as far as memory is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub ram: u64,
    /// What the GPU may use of it (Metal's recommended working set) or its own memory; none on the CPU.
    pub working_set: Option<u64>,
    /// Free and reclaimable now.
    pub available: Option<u64>,
}

impl Machine {
    /// What a model may use: the working set, but never so much that the system starves.
    pub fn budget(&self) -> u64 {
        let reserve = (4 * GIB).max(self.ram / 8);
        let left = self.ram.saturating_sub(reserve).max(self.ram / 2);
        match self.working_set {
            Some(set) if cfg!(target_os = "macos") => set.min(left),
            // Elsewhere a GPU has memory of its own, and the system needs none of it.
            Some(set) => set,
            // Apple's default limit, for a machine that cannot be asked.
            None if cfg!(target_os = "macos") => left.min(if self.ram <= 36 * GIB { self.ram / 3 * 2 } else { self.ram / 4 * 3 }),
            None => left,
        }
    }
}

/// What a line of the sum is for, in the order of the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    Weights,
    Drafter,
    Context,
    DrafterContext,
    Recurrent,
    Kept,
    Working,
    Application,
}

impl Part {
    pub fn label(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Drafter => "drafter",
            Self::Context => "context",
            Self::DrafterContext => "drafter context",
            Self::Recurrent => "recurrent state",
            Self::Kept => "kept conversation",
            Self::Working => "working buffers",
            Self::Application => "application",
        }
    }
}

/// One line of the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Item {
    #[serde(skip)]
    pub part: Part,
    pub label: &'static str,
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    FitsWell,
    Fits,
    /// Close other programs.
    Tight,
    /// With a context of at most so many tokens.
    ShorterContext {
        max: u64,
    },
    TooBig,
}

impl Verdict {
    pub fn fits(self) -> bool {
        self != Self::TooBig
    }

    pub fn label(self) -> String {
        match self {
            Self::FitsWell => "Fits well".into(),
            Self::Fits => "Fits".into(),
            Self::Tight => "Tight: close other apps".into(),
            Self::ShorterContext { max } => format!("Fits with a shorter context (at most {max} tokens)"),
            Self::TooBig => "Too big".into(),
        }
    }
}

/// The verdict and everything it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fit {
    #[serde(flatten)]
    pub verdict: Verdict,
    /// At this context, tokens.
    pub context: u64,
    pub items: Vec<Item>,
    pub peak: u64,
    pub budget: u64,
    /// The largest context that leaves a tenth of the budget free, in steps of 8192 tokens.
    pub max_context: u64,
    /// Whether it also fits beside what is open now; none where that is not known.
    pub fits_now: Option<bool>,
    /// The KV cache could not be computed and is not in the sum.
    pub kv_unknown: bool,
}

/// Adds up what `model` needs at `context` tokens and compares it with `machine`.
pub fn judge(model: &Model, machine: &Machine, context: u64) -> Fit {
    let context = model.max_context.map_or(context, |max| context.min(max));
    let items = |context: u64| {
        let transient = model
            .intermediate
            .saturating_mul(PREFILL_CHUNK * 2 * 3)
            .max(GB * 2 / 5)
            .saturating_add(GB * 3 / 10);
        [
            (Part::Weights, model.weight_bytes),
            (Part::Drafter, model.drafter_bytes),
            (Part::Context, model.target_kv(context)),
            (Part::DrafterContext, model.drafter_kv(context)),
            (Part::Recurrent, model.recurrent),
            (Part::Kept, model.kv(context.min(TYPICAL))),
            (Part::Working, transient),
            (Part::Application, GB / 4),
        ]
        .map(|(part, bytes)| Item {
            part,
            label: part.label(),
            bytes,
        })
    };
    let peak = |context| items(context).iter().fold(0_u64, |sum, item| sum.saturating_add(item.bytes));
    let budget = machine.budget();
    let (now, nine_tenths) = (peak(context), budget / 10 * 9);

    let per_token = model.kv_per_token.unwrap_or(0).saturating_add(model.drafter_kv_per_token);
    let longest = if peak(0) > nine_tenths {
        0
    } else {
        let fixed = peak(0).saturating_add(model.kv(TYPICAL) - model.recurrent);
        match nine_tenths.saturating_sub(fixed).checked_div(per_token) {
            Some(tokens) => (tokens / LEAST * LEAST).min(model.max_context.unwrap_or(u64::MAX)),
            None => model.max_context.unwrap_or(context),
        }
    };
    let ratio = now as f64 / budget.max(1) as f64;
    let verdict = if ratio <= 0.75 {
        Verdict::FitsWell
    } else if ratio <= 0.90 {
        Verdict::Fits
    } else if ratio <= 1.0 {
        Verdict::Tight
    } else if longest >= LEAST && peak(LEAST) <= nine_tenths {
        Verdict::ShorterContext { max: longest }
    } else {
        Verdict::TooBig
    };
    Fit {
        verdict,
        context,
        items: items(context).into_iter().filter(|item| item.bytes > 0).collect(),
        peak: now,
        budget,
        max_context: longest,
        fits_now: machine.available.map(|available| now <= available),
        kv_unknown: model.kv_per_token.is_none(),
    }
}

/// After a load: true need and a shorter context, where the full window would not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ContextWarning {
    pub need: u64,
    /// Tokens; none where no useful context is left.
    pub suggest: Option<u64>,
}

impl std::fmt::Display for ContextWarning {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "its whole context window would need {}, more than this machine should give a model; ",
            crate::size(self.need)
        )?;
        match self.suggest {
            Some(tokens) => write!(
                out,
                "long chats may run out of memory: load it with a window of at most {tokens} tokens"
            ),
            None => write!(out, "no useful window is left: choose a smaller model or quantization"),
        }
    }
}

/// Compares resident bytes plus a full window with nine tenths of the budget. Silent where anything is unknown.
pub fn context_warning(kv_per_token: u64, window: u64, resident: u64, budget: u64) -> Option<ContextWarning> {
    if [kv_per_token, window, resident, budget].contains(&0) {
        return None;
    }
    let limit = (0.9 * budget as f64) as i64;
    let need = resident.saturating_add(window.saturating_mul(kv_per_token));
    if i64::try_from(need).is_ok_and(|need| need <= limit) {
        return None;
    }
    let fit = (limit - resident as i64).div_euclid(kv_per_token as i64).div_euclid(LEAST as i64) * LEAST as i64;
    Some(ContextWarning {
        need,
        suggest: u64::try_from(fit).ok().filter(|fit| *fit >= LEAST),
    })
}

#[cfg(test)]
mod tests;
