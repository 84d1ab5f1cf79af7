//! A small GGUF writer: tiny models with every tensor type that can be converted.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use half::{bf16, f16};
use std::collections::BTreeMap;

#[derive(Clone)]
pub enum Value {
    U32(u32),
    F32(f32),
    Bool(bool),
    Str(String),
    Strs(Vec<String>),
    I32s(Vec<i32>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub kind: u32,
    /// Row-major, outermost first.
    pub shape: Vec<u64>,
    pub data: Vec<u8>,
}

#[derive(Clone)]
pub struct Model {
    pub keys: BTreeMap<String, Value>,
    pub tensors: Vec<Tensor>,
}

pub const HIDDEN: u64 = 64;
pub const INTER: u64 = 96;
pub const HEADS: u64 = 4;
pub const KV_HEADS: u64 = 2;
pub const HEAD_DIM: u64 = 16;
pub const LAYERS: u64 = 2;

pub const F32: u32 = 0;
pub const F16: u32 = 1;
pub const Q4_0: u32 = 2;
pub const Q4_1: u32 = 3;
pub const Q8_0: u32 = 8;
pub const BF16: u32 = 30;

/// Repeatable noise.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    fn unit(&mut self) -> f32 {
        self.next() as f32 / (1_u32 << 30) as f32 - 1.0
    }
}

/// Random data of a type: blocks with random scales and every bit of the quants in use.
pub fn data(kind: u32, elements: u64, noise: &mut Noise) -> Vec<u8> {
    let mut out = Vec::new();
    let half = |noise: &mut Noise| f16::from_f32(noise.unit() * 0.1).to_le_bytes();
    match kind {
        F32 => (0..elements).for_each(|_| out.extend(noise.unit().to_le_bytes())),
        F16 => (0..elements).for_each(|_| out.extend(half(noise))),
        BF16 => (0..elements).for_each(|_| out.extend(bf16::from_f32(noise.unit()).to_le_bytes())),
        _ => {
            let (halves, bytes) = [(1, 16), (2, 16), (1, 32)][[Q4_0, Q4_1, Q8_0].iter().position(|k| *k == kind).unwrap()];
            for _ in 0..elements / 32 {
                (0..halves).for_each(|_| out.extend(half(noise)));
                (0..bytes).for_each(|_| out.push(noise.next() as u8));
            }
        }
    }
    out
}

/// Weights of one tensor as f64, by ggml's definition, element by element.
pub fn weights(tensor: &Tensor) -> Vec<f64> {
    let half = |bytes: &[u8]| f64::from(f16::from_le_bytes([bytes[0], bytes[1]]));
    let d = &tensor.data;
    let nibble = |byte: u8, i: usize| f64::from(if i < 16 { byte & 0xf } else { byte >> 4 });
    match tensor.kind {
        F32 => d.chunks(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect(),
        F16 => d.chunks(2).map(half).collect(),
        BF16 => d.chunks(2).map(|b| f64::from(bf16::from_le_bytes([b[0], b[1]]))).collect(),
        Q4_0 => d
            .chunks(18)
            .flat_map(|b| (0..32).map(move |i| half(b) * (nibble(b[2 + i % 16], i) - 8.0)))
            .collect(),
        Q4_1 => d
            .chunks(20)
            .flat_map(|b| (0..32).map(move |i| half(b) * nibble(b[4 + i % 16], i) + half(&b[2..])))
            .collect(),
        Q8_0 => d
            .chunks(34)
            .flat_map(|b| (0..32).map(move |i| half(b) * f64::from(b[2 + i].cast_signed())))
            .collect(),
        other => panic!("type {other}"),
    }
}

/// GPT-2's printable stand-ins for bytes, in id order, then one merge and two special tokens.
pub fn vocabulary() -> (Vec<String>, Vec<String>, Vec<i32>) {
    let printable = |b: u32| (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b);
    let mut extra = 256;
    let mut tokens: Vec<String> = (0..256)
        .map(|b| {
            let c = if printable(b) {
                b
            } else {
                extra += 1;
                extra - 1
            };
            char::from_u32(c).unwrap().to_string()
        })
        .collect();
    tokens.push("hi".into());
    let mut types = vec![1; tokens.len()];
    for (token, kind) in [("<|im_start|>", 3), ("<|im_end|>", 3), ("<think>", 4), ("[PAD0]", 5)] {
        tokens.push(token.into());
        types.push(kind);
    }
    (tokens, vec!["h i".into()], types)
}

/// A tiny model; `kinds` are dealt to the matrices in turn.
pub fn model(architecture: &str, kinds: &[u32], tied: bool) -> Model {
    let (tokens, merges, types) = vocabulary();
    let vocab = tokens.len() as u64;
    let key = |suffix: &str| format!("{architecture}.{suffix}");
    let mut keys = BTreeMap::from([
        ("general.architecture".to_owned(), architecture.into()),
        ("general.name".to_owned(), "Tiny".into()),
        (key("block_count"), Value::U32(LAYERS as u32)),
        (key("context_length"), Value::U32(512)),
        (key("embedding_length"), Value::U32(HIDDEN as u32)),
        (key("feed_forward_length"), Value::U32(INTER as u32)),
        (key("attention.head_count"), Value::U32(HEADS as u32)),
        (key("attention.head_count_kv"), Value::U32(KV_HEADS as u32)),
        (key("attention.key_length"), Value::U32(HEAD_DIM as u32)),
        (key("attention.layer_norm_rms_epsilon"), Value::F32(1e-5)),
        (key("rope.freq_base"), Value::F32(10_000.0)),
        ("tokenizer.ggml.model".to_owned(), "gpt2".into()),
        (
            "tokenizer.ggml.pre".to_owned(),
            if architecture == "qwen3" { "qwen2" } else { "smollm" }.into(),
        ),
        ("tokenizer.ggml.bos_token_id".to_owned(), Value::U32(257)),
        ("tokenizer.ggml.eos_token_id".to_owned(), Value::U32(258)),
        ("tokenizer.ggml.tokens".to_owned(), Value::Strs(tokens)),
        ("tokenizer.ggml.merges".to_owned(), Value::Strs(merges)),
        ("tokenizer.ggml.token_type".to_owned(), Value::I32s(types)),
        ("tokenizer.chat_template".to_owned(), "{{ messages[0].content }}".into()),
    ]);
    if architecture == "llama" {
        keys.insert(key("rope.dimension_count"), Value::U32(HEAD_DIM as u32));
    }
    let mut noise = Noise(7);
    let mut tensors = Vec::new();
    let mut turn = 0;
    let mut add = |name: String, shape: Vec<u64>| {
        let kind = if shape.len() == 1 {
            F32
        } else {
            turn += 1;
            kinds[turn % kinds.len()]
        };
        let data = data(kind, shape.iter().product(), &mut noise);
        tensors.push(Tensor { name, kind, shape, data });
    };
    add("token_embd.weight".into(), vec![vocab, HIDDEN]);
    for layer in 0..LAYERS {
        let mut part = |name: &str, shape: Vec<u64>| add(format!("blk.{layer}.{name}.weight"), shape);
        let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        part("attn_norm", vec![HIDDEN]);
        part("attn_q", vec![q, HIDDEN]);
        part("attn_k", vec![kv, HIDDEN]);
        part("attn_v", vec![kv, HIDDEN]);
        part("attn_output", vec![HIDDEN, q]);
        part("ffn_norm", vec![HIDDEN]);
        part("ffn_gate", vec![INTER, HIDDEN]);
        part("ffn_up", vec![INTER, HIDDEN]);
        part("ffn_down", vec![HIDDEN, INTER]);
        if architecture == "qwen3" {
            part("attn_q_norm", vec![HEAD_DIM]);
            part("attn_k_norm", vec![HEAD_DIM]);
        }
    }
    add("output_norm.weight".into(), vec![HIDDEN]);
    if !tied {
        add("output.weight".into(), vec![vocab, HIDDEN]);
    }
    Model { keys, tensors }
}

impl Model {
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3_u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        fn string(out: &mut Vec<u8>, text: &str) {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        }
        for (key, value) in &self.keys {
            string(&mut out, key);
            match value {
                Value::U32(n) => {
                    out.extend(4_u32.to_le_bytes());
                    out.extend(n.to_le_bytes());
                }
                Value::F32(x) => {
                    out.extend(6_u32.to_le_bytes());
                    out.extend(x.to_le_bytes());
                }
                Value::Bool(b) => {
                    out.extend(7_u32.to_le_bytes());
                    out.push((*b).into());
                }
                Value::Str(text) => {
                    out.extend(8_u32.to_le_bytes());
                    string(&mut out, text);
                }
                Value::Strs(list) => {
                    out.extend([9_u32.to_le_bytes(), 8_u32.to_le_bytes()].concat());
                    out.extend((list.len() as u64).to_le_bytes());
                    for text in list {
                        string(&mut out, text);
                    }
                }
                Value::I32s(list) => {
                    out.extend([9_u32.to_le_bytes(), 5_u32.to_le_bytes()].concat());
                    out.extend((list.len() as u64).to_le_bytes());
                    for n in list {
                        out.extend(n.to_le_bytes());
                    }
                }
            }
        }
        let mut offset = 0_u64;
        for tensor in &self.tensors {
            string(&mut out, &tensor.name);
            out.extend((tensor.shape.len() as u32).to_le_bytes());
            tensor.shape.iter().rev().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset = (offset + tensor.data.len() as u64).next_multiple_of(32);
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(&tensor.data);
        }
        out
    }

    pub fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.iter().find(|tensor| tensor.name == name).unwrap()
    }
}
