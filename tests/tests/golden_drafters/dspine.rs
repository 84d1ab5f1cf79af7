//! DSpine, which the reference lacks: a tiny random checkpoint against the formulas of `spec/drafters.md` §4.4 (confirmed
//! on SpecForge's `dspine.py`), computed here in f64 from the stored numbers alone, backbone included.

use super::*;
use serde_json::json;

const HIDDEN: usize = 64;
const VOCAB: usize = 50;
const INNER: usize = 48;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 16;
const LAYERS: usize = 2;
const TAPS: usize = 2;
const RANK: usize = 24;
const MESSAGE: usize = 12;
const TOP: usize = 5;
const BLOCK: usize = 6;
const MASK: u32 = 3;
const WINDOW: usize = 6;
const ANCHOR: u32 = 17;
const CONTEXT: usize = 9;

type Vector = Vec<f64>;

/// Stored numbers by name, in f32 so that both sides see the same.
struct Stored(HashMap<String, (Vec<usize>, Vec<f32>)>);

impl Stored {
    fn random() -> Self {
        let mut seed = 7_u64;
        let mut next = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        let mut all = HashMap::new();
        let mut add = |name: &str, shape: &[usize], centre: f32, spread: f32| {
            let n = shape.iter().product();
            let values: Vec<f32> = (0..n).map(|_| centre + spread * next()).collect();
            all.insert(name.to_owned(), (shape.to_vec(), values));
        };
        add("fc.weight", &[HIDDEN, TAPS * HIDDEN], 0.0, 0.3);
        add("hidden_norm.weight", &[HIDDEN], 1.0, 0.4);
        add("norm.weight", &[HIDDEN], 1.0, 0.4);
        for layer in 0..LAYERS {
            let mut add = |name: &str, shape: &[usize], centre, spread| add(&format!("layers.{layer}.{name}"), shape, centre, spread);
            add("input_layernorm.weight", &[HIDDEN], 1.0, 0.4);
            add("post_attention_layernorm.weight", &[HIDDEN], 1.0, 0.4);
            add("self_attn.q_proj.weight", &[HEADS * DIM, HIDDEN], 0.0, 0.5);
            add("self_attn.k_proj.weight", &[KV_HEADS * DIM, HIDDEN], 0.0, 0.5);
            add("self_attn.v_proj.weight", &[KV_HEADS * DIM, HIDDEN], 0.0, 0.5);
            add("self_attn.o_proj.weight", &[HIDDEN, HEADS * DIM], 0.0, 0.5);
            add("self_attn.q_norm.weight", &[DIM], 1.0, 0.4);
            add("self_attn.k_norm.weight", &[DIM], 1.0, 0.4);
            add("mlp.gate_proj.weight", &[INNER, HIDDEN], 0.0, 0.5);
            add("mlp.up_proj.weight", &[INNER, HIDDEN], 0.0, 0.5);
            add("mlp.down_proj.weight", &[HIDDEN, INNER], 0.0, 0.5);
        }
        for layer in 0..LAYERS {
            add(&format!("injection.readouts.{layer}.weight"), &[RANK, HIDDEN], 0.0, 1.0);
            add(&format!("injection.writes.{layer}.weight"), &[HIDDEN, MESSAGE], 0.0, 0.8);
        }
        for name in ["message", "receiver_gate", "predecessor_gate"] {
            add(&format!("injection.{name}.weight"), &[MESSAGE, RANK], 0.0, 0.6);
        }
        add("injection.bias", &[MESSAGE], 0.0, 1.0);
        add("transfer_codes", &[VOCAB, RANK], 0.0, 1.0);
        add("target.embed", &[VOCAB, HIDDEN], 0.0, 2.0);
        add("target.head", &[VOCAB, HIDDEN], 0.0, 1.0);
        add("features", &[CONTEXT, TAPS * HIDDEN], 0.0, 2.0);
        // Rows of length 1.
        let (_, codes) = all.get_mut("transfer_codes").unwrap();
        for row in codes.chunks_mut(RANK) {
            let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            for x in row.iter_mut() {
                *x /= length;
            }
        }
        Self(all)
    }

    fn array(&self, name: &str) -> Array {
        let (shape, values) = &self.0[name];
        let shape: Vec<i32> = shape.iter().map(|n| *n as i32).collect();
        Array::from_slice(values, &shape)
    }

    /// Writes the drafter; the codes as `codes` into a file of their own if `apart`.
    fn write(&self, dir: &Path, config: &Value, apart: bool, ready: Option<bool>) {
        std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
        let own = |name: &&String| !name.starts_with("target.") && *name != "features" && !(apart && *name == "transfer_codes");
        let mut arrays: HashMap<String, Array> = self.0.keys().filter(own).map(|name| (name.clone(), self.array(name))).collect();
        if let Some(ready) = ready {
            arrays.insert("transfer_ready".into(), Array::from_slice(&[ready], &[]));
        }
        save(&arrays, &dir.join("model.safetensors"));
        if apart {
            let codes = HashMap::from([("codes".to_owned(), self.array("transfer_codes"))]);
            save(&codes, &dir.join("transfer_codes.safetensors"));
        }
    }

    fn row(&self, name: &str, row: usize) -> Vector {
        let (shape, values) = &self.0[name];
        let width = shape.last().copied().unwrap();
        values[row * width..(row + 1) * width].iter().map(|x| f64::from(*x)).collect()
    }

    fn vector(&self, name: &str) -> Vector {
        self.0[name].1.iter().map(|x| f64::from(*x)).collect()
    }

    /// `W x`.
    fn times(&self, name: &str, x: &[f64]) -> Vector {
        let rows = self.0[name].0[0];
        (0..rows).map(|row| dot(&self.row(name, row), x)).collect()
    }

    fn rms(&self, name: &str, x: &[f64]) -> Vector {
        let mean = dot(x, x) / x.len() as f64;
        let weight = self.vector(name);
        x.iter().zip(weight).map(|(x, w)| x / (mean + 1e-6).sqrt() * w).collect()
    }

    /// A projection as normed (where there is a norm) and turned heads.
    fn heads(&self, layer: usize, name: &str, x: &[f64], norm: Option<&str>, at: usize) -> Vec<Vector> {
        let flat = self.times(&format!("layers.{layer}.self_attn.{name}.weight"), x);
        flat.chunks(DIM)
            .map(|head| match norm {
                None => head.to_vec(),
                Some(norm) => turned(&self.rms(&format!("layers.{layer}.self_attn.{norm}.weight"), head), at),
            })
            .collect()
    }

    fn feature(&self, layer: usize, h: &[f64]) -> Vector {
        let read = self.times(&format!("injection.readouts.{layer}.weight"), h);
        let length = dot(&read, &read).sqrt();
        read.iter().map(|x| x / length * (RANK as f64).sqrt()).collect()
    }

    fn code(&self, token: u32) -> Vector {
        self.row("transfer_codes", token as usize)
            .iter()
            .map(|x| x * (RANK as f64).sqrt())
            .collect()
    }

    fn write_into(&self, layer: usize, h: &[f64], receiver: &[f64], predecessor: &[f64]) -> Vector {
        let (r, p) = (
            self.times("injection.receiver_gate.weight", receiver),
            self.times("injection.predecessor_gate.weight", predecessor),
        );
        let (m, b) = (self.times("injection.message.weight", predecessor), self.vector("injection.bias"));
        let gated: Vector = (0..MESSAGE).map(|i| m[i] / (1.0 + (-(r[i] + p[i] + b[i])).exp())).collect();
        let delta = self.times(&format!("injection.writes.{layer}.weight"), &gated);
        let scale = dot(h, h).sqrt() / (HIDDEN as f64).sqrt();
        h.iter().zip(delta).map(|(h, d)| h + scale * d).collect()
    }

    /// Final rows of the block, and the rows before the last injection.
    fn block(&self) -> (Vec<Vector>, Vec<Vector>) {
        let context: Vec<Vector> = (0..CONTEXT)
            .map(|t| self.rms("hidden_norm.weight", &self.times("fc.weight", &self.row("features", t))))
            .collect();
        let id = |slot: usize| if slot == 0 { ANCHOR } else { MASK };
        let mut x: Vec<Vector> = (0..BLOCK).map(|slot| self.row("target.embed", id(slot) as usize)).collect();
        let mut before = Vec::new();
        for layer in 0..LAYERS {
            let name = |name: &str| format!("layers.{layer}.{name}.weight");
            let normed: Vec<Vector> = x.iter().map(|x| self.rms(&name("input_layernorm"), x)).collect();
            let rows: Vec<&Vector> = context.iter().chain(&normed).collect();
            let pairs: Vec<_> = rows
                .iter()
                .enumerate()
                .map(|(at, row)| {
                    (
                        self.heads(layer, "k_proj", row, Some("k_norm"), at),
                        self.heads(layer, "v_proj", row, None, at),
                    )
                })
                .collect();
            for slot in 0..BLOCK {
                let at = CONTEXT + slot;
                // The first layer sees everything up to itself, the second the last few.
                let from = if layer == 0 { 0 } else { (at + 1).saturating_sub(WINDOW) };
                let q = self.heads(layer, "q_proj", &normed[slot], Some("q_norm"), at);
                let mut out = Vec::new();
                for (head, q) in q.iter().enumerate() {
                    let kv = head / (HEADS / KV_HEADS);
                    let weight: Vector = pairs[from..=at]
                        .iter()
                        .map(|(k, _)| (dot(q, &k[kv]) / (DIM as f64).sqrt()).exp())
                        .collect();
                    let sum: f64 = weight.iter().sum();
                    out.extend((0..DIM).map(|i| {
                        let values = pairs[from..=at].iter().map(|(_, v)| v[kv][i]);
                        values.zip(&weight).map(|(v, w)| v * w / sum).sum::<f64>()
                    }));
                }
                let y = self.times(&name("self_attn.o_proj"), &out);
                let h: Vector = x[slot].iter().zip(y).map(|(x, y)| x + y).collect();
                let a = self.rms(&name("post_attention_layernorm"), &h);
                let (gate, up) = (self.times(&name("mlp.gate_proj"), &a), self.times(&name("mlp.up_proj"), &a));
                let inner: Vector = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                let y = self.times(&name("mlp.down_proj"), &inner);
                x[slot] = h.iter().zip(y).map(|(h, y)| h + y).collect();
            }
            before.clone_from(&x);
            let features: Vec<Vector> = before.iter().map(|h| self.feature(layer, h)).collect();
            for slot in 1..BLOCK {
                let heard = if slot == 1 { self.code(ANCHOR) } else { features[slot - 1].clone() };
                x[slot] = self.write_into(layer, &before[slot], &features[slot], &heard);
            }
        }
        (x.iter().map(|x| self.rms("norm.weight", x)).collect(), before)
    }
}

/// Half-split rotation.
fn turned(x: &[f64], at: usize) -> Vector {
    let half = DIM / 2;
    let mut out = x.to_vec();
    for i in 0..half {
        let angle = at as f64 * 1e4_f64.powf(-(i as f64) / half as f64);
        let (sin, cos) = angle.sin_cos();
        out[i] = x[i] * cos - x[i + half] * sin;
        out[i + half] = x[i + half] * cos + x[i] * sin;
    }
    out
}

fn save(arrays: &HashMap<String, Array>, path: &Path) {
    let named = arrays.iter().map(|(name, array)| (name.as_str(), array));
    Array::save_safetensors(named, None, path).unwrap();
}

fn config() -> Value {
    json!({
        "architectures": ["DSpineDraftModel"], "model_type": "qwen3", "hidden_size": HIDDEN, "vocab_size": VOCAB,
        "num_hidden_layers": LAYERS, "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "head_dim": DIM, "rope_theta": 1e4, "rms_norm_eps": 1e-6, "block_size": BLOCK,
        "layer_types": ["full_attention", "sliding_attention"], "sliding_window": WINDOW,
        "dflash_config": {"target_layer_ids": [1, 3], "mask_token_id": MASK},
        "dspine_config": {"transfer_rank": RANK, "message_size": MESSAGE, "top_k": TOP}
    })
}

fn bound(dir: &Path, stored: &Stored) -> Drafter {
    let mut drafter = Drafter::load(dir, &exact()).unwrap();
    let ends = Ends::of_tables(stored.array("target.embed"), Some(stored.array("target.head")), 1.0, 8);
    drafter.bind_to(ends.unwrap()).unwrap();
    drafter
}

fn near(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let off = (f64::from(*found) - expected).abs();
        assert!(off < 2e-4 * expected.abs().max(1.0), "{what}: {found} is not {expected}");
    }
}

#[test]
fn injections_and_lattice_are_the_formulas() {
    let stored = Stored::random();
    let (rows_expected, before) = stored.block();
    for apart in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        stored.write(dir.path(), &config(), apart, Some(true));
        let drafter = bound(dir.path(), &stored);
        assert_eq!(drafter.spec().masks, [BlockMask::Causal, BlockMask::Sliding(WINDOW)]);
        let features = stored.array("features").expand_dims(0).unwrap();
        let mut context = drafter.new_context();
        drafter.commit(&features.try_index((.., ..4, ..)).unwrap(), &mut context).unwrap();
        drafter.commit(&features.try_index((.., 4.., ..)).unwrap(), &mut context).unwrap();
        let anchor = one(ANCHOR);
        for width in [2, 4, BLOCK] {
            let found = rows(&drafter.block(&anchor, width, &mut context).unwrap().try_index((0, .., ..)).unwrap());
            for (slot, (found, expected)) in found.iter().zip(&rows_expected).enumerate() {
                near(found, expected, &format!("width {width}, slot {slot}"));
            }
        }

        let logits: Vec<Vector> = rows_expected[1..].iter().map(|h| stored.times("target.head", h)).collect();
        let expected: Vec<Vec<u32>> = logits
            .iter()
            .map(|row| {
                let mut ids: Vec<u32> = (0..VOCAB as u32).collect();
                ids.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]));
                ids[..TOP].to_vec()
            })
            .collect();
        let lattice = drafter.lattice(&anchor, BLOCK - 1, &mut context).unwrap();
        assert_eq!(tokens(&lattice.candidates), expected.concat());
        let mut walk = Vec::new();
        let mut previous = 0;
        for slot in 0..BLOCK - 1 {
            let found = rows(&lattice.scores.try_index((slot as i32, .., ..)).unwrap());
            let mut best = Vec::new();
            for (index, found) in found.iter().enumerate() {
                let token = if slot == 0 { ANCHOR } else { expected[slot - 1][index] };
                let h = &before[slot + 1];
                let written = stored.write_into(LAYERS - 1, h, &stored.feature(LAYERS - 1, h), &stored.code(token));
                let refined = stored.rms("norm.weight", &written);
                let scores: Vector = expected[slot]
                    .iter()
                    .map(|c| dot(&refined, &stored.row("target.head", *c as usize)))
                    .collect();
                near(found, &scores, &format!("slot {slot}, predecessor {index}"));
                best.push((0..TOP).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap());
            }
            previous = best[previous];
            walk.push(expected[slot][previous]);
        }
        for cap in [1, 3, BLOCK - 1] {
            assert_eq!(
                tokens(&drafter.draft(&anchor, cap, &mut context).unwrap()),
                walk[..cap],
                "cap {cap}"
            );
        }
        // The injections do something: the walk is not the best token of every slot.
        assert_ne!(walk, expected.iter().map(|slot| slot[0]).collect::<Vec<_>>());
    }
}

#[test]
fn quantizing_at_load_leaves_the_injections_alone() {
    let stored = Stored::random();
    let dir = tempfile::tempdir().unwrap();
    stored.write(dir.path(), &config(), false, None);
    let packed = DrafterOptions { bits: Some(4), ..exact() };
    let (packed, plain) = (Drafter::load(dir.path(), &packed).unwrap(), bound(dir.path(), &stored));
    let kept: usize = stored
        .0
        .iter()
        .filter(|(name, _)| name.starts_with("injection.") || *name == "transfer_codes")
        .map(|(_, (_, values))| 4 * values.len())
        .sum();
    assert!(packed.weight_bytes() > kept as u64 && packed.weight_bytes() < plain.weight_bytes());
}

#[test]
fn what_cannot_run_is_refused() {
    let stored = Stored::random();
    let refusal = |config: &Value, without: Option<&str>, ready: Option<bool>| {
        let dir = tempfile::tempdir().unwrap();
        let mut stored = Stored(stored.0.clone());
        without.map(|name| stored.0.remove(name));
        stored.write(dir.path(), config, false, ready);
        Drafter::load(dir.path(), &exact()).unwrap_err().to_string()
    };
    let mut bidirectional = config();
    bidirectional["is_causal"] = false.into();
    for (message, named) in [
        (refusal(&bidirectional, None, None), "bidirectional"),
        (refusal(&config(), Some("transfer_codes"), None), "without its token codes"),
        (refusal(&config(), None, Some(false)), "`transfer_ready` is false"),
        (
            refusal(&config(), Some("injection.writes.1.weight"), None),
            "missing 1 (injection.writes.1.weight)",
        ),
    ] {
        assert!(message.contains(named), "{message}");
    }
}
