//! CPU time of the kernels on weights shaped like a model's: the table of a linear layer over rows, and a whole decoder of SmolLM2-135M's
//! shape with random weights, for prefill, decode and the cost of verifying several rows.
//!
//! `cargo bench -p mlx-cpu [-- linear decoder verify]` (or `make bench`); one thread unless `MLX_CPU_THREADS` says otherwise. Figures are medians of processor time,
//! so other work on the machine disturbs them less; measure beside a peer in turns.
#![allow(clippy::print_stdout)]

use mlx_cpu::{
    Attention, KvCache, Mask, Positions, Result, Rope, Weight, embed, linear, linear_plus, norm_linear, settle, swiglu_linear, threads,
};
use mlx_rs::{
    Array, Dtype,
    ops::{
        self,
        indexing::{TryIndexOp, argmax},
    },
    random,
    transforms::{async_eval, eval},
};

const LAYERS: usize = 30;
const WIDTH: i32 = 576;
const HIDDEN: i32 = 1536;
const VOCABULARY: i32 = 49_152;

/// Processor seconds of this process, all threads.
fn cpu() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the struct.
    #[allow(unsafe_code)]
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Median seconds of a call, from batches long enough for the clock.
fn time(call: &dyn Fn() -> Result<Array>) -> Result<f64> {
    let mut batch = 1;
    let run = |batch: usize| -> Result<f64> {
        let start = cpu();
        let all = (0..batch).map(|_| call()).collect::<Result<Vec<_>>>()?;
        eval(&all)?;
        Ok(cpu() - start)
    };
    while run(batch)? < 0.01 {
        batch *= 2;
    }
    Ok(median((0..7).map(|_| run(batch)).collect::<Result<Vec<_>>>()?) / batch as f64)
}

fn random_weight(n: i32, k: i32, bits: i32, group: i32) -> Result<Weight> {
    let w = random::uniform::<_, f32>(-0.06, 0.06, &[n, k], &random::key((n + k) as u64)?)?.as_dtype(Dtype::Float16)?;
    let weight = if bits == 16 {
        Weight::dense(w.as_dtype(Dtype::Bfloat16)?)
    } else {
        let (w, scales, biases) = ops::quantize(&w, group, bits)?;
        Weight::affine(w, scales, biases, group, bits)
    };
    eval(weight.arrays())?;
    Ok(weight)
}

fn table() -> Result<()> {
    println!("linear, CPU ms a call (x f32, one row of weights an output)");
    println!(
        "{:>6} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  GFLOP/s at 1 and 512 rows",
        "bits", "N x K", "1", "2", "4", "8", "64", "512"
    );
    for (bits, group) in [(4, 32), (4, 64), (8, 32), (16, 0)] {
        for (n, k) in [(3072, 576), (576, 1536), (2048, 2048)] {
            let weight = random_weight(n, k, bits, group)?;
            let mut times = vec![];
            for m in [1, 2, 4, 8, 64, 512] {
                let x = random::normal::<f32>(&[m, k], None, None, &random::key(1)?)?;
                eval([&x])?;
                times.push(time(&|| linear(&x, &weight))?);
            }
            let rate = |i: usize, m: f64| 2e-9 * m * f64::from(n) * f64::from(k) / times[i];
            let name = if group > 0 { format!("{bits}/{group}") } else { "bf16".into() };
            let columns: Vec<String> = times.iter().map(|t| format!("{:>9.4}", t * 1e3)).collect();
            let columns = columns.join(" ");
            println!(
                "{name:>6} {:>12}{columns:>60}  {:.1} {:.1}",
                format!("{n} x {k}"),
                rate(0, 1.0),
                rate(5, 512.0)
            );
        }
    }
    Ok(())
}

struct Layer {
    norms: [Array; 2],
    qkv: Weight,
    out: Weight,
    gate_up: Weight,
    down: Weight,
}

struct Model {
    table: Weight,
    norm: Array,
    layers: Vec<Layer>,
    attention: Attention,
}

impl Model {
    fn new() -> Result<Self> {
        let ones = || -> Result<Array> { ops::ones::<f32>(&[WIDTH]) };
        let layer = || -> Result<Layer> {
            let [qkv, out, gate_up, down] =
                [(960, WIDTH), (WIDTH, WIDTH), (2 * HIDDEN, WIDTH), (WIDTH, HIDDEN)].map(|(n, k)| random_weight(n, k, 4, 32));
            Ok(Layer {
                norms: [ones()?, ones()?],
                qkv: qkv?,
                out: out?,
                gate_up: gate_up?,
                down: down?,
            })
        };
        let rope = Some(Rope::with_base(1e5, 64, false));
        Ok(Self {
            table: random_weight(VOCABULARY, WIDTH, 8, 32)?,
            norm: ones()?,
            layers: (0..LAYERS).map(|_| layer()).collect::<Result<_>>()?,
            attention: Attention {
                heads: 9,
                kv_heads: 3,
                dim: 64,
                scale: None,
                q_norm: None,
                k_norm: None,
                rope,
                sinks: None,
            },
        })
    }

    fn weights(&self) -> Vec<&Array> {
        let layers = self.layers.iter().flat_map(|l| [&l.qkv, &l.out, &l.gate_up, &l.down]);
        layers.chain([&self.table]).flat_map(Weight::arrays).collect()
    }

    fn caches() -> Vec<KvCache> {
        (0..LAYERS).map(|_| KvCache::new(Dtype::Float16, 256)).collect()
    }

    /// The most likely token after each row, or after the last.
    fn forward(&self, tokens: &Array, caches: &mut [KvCache], all: bool) -> Result<Array> {
        let n = tokens.dim(0);
        let mut x = embed(tokens, &self.table, Dtype::Float32)?.reshape(&[1, n, WIDTH])?;
        for (layer, cache) in self.layers.iter().zip(caches) {
            let qkv = norm_linear(&x, Some(&layer.norms[0]), 1e-5, &layer.qkv)?;
            let offset = cache.len();
            let heads = self.attention.step(&qkv, cache, Positions::From(offset), Mask::Causal)?;
            x = linear_plus(&heads, &layer.out, &x)?;
            let gate_up = norm_linear(&x, Some(&layer.norms[1]), 1e-5, &layer.gate_up)?;
            x = swiglu_linear(&gate_up, &layer.down, Some(&x))?;
        }
        let x = if all || n == 1 { x } else { x.try_index((.., n - 1.., ..))? };
        let logits = norm_linear(&x, Some(&self.norm), 1e-5, &self.table)?;
        let rows = logits.dim(1);
        argmax(&logits.reshape(&[rows, VOCABULARY])?.try_index(rows - 1)?, false)?.reshape(&[1])
    }
}

fn decoder(rates: bool) -> Result<()> {
    let model = Model::new()?;
    let huge = settle(model.weights())?;
    println!(
        "\ndecoder of 30 layers (576 wide, 9 heads over 3, 4-bit groups of 32, 8-bit table of 49152), {} MB on huge pages, tokens per CPU second",
        huge / 1_000_000
    );
    if rates {
        println!("{:>8} {:>9} {:>9}", "context", "prefill", "decode");
    }
    for (prompt, count, rounds) in [(32, 64, 5), (512, 32, 3), (2048, 16, 1)] {
        if !rates {
            break;
        }
        let ids: Vec<i32> = (0..prompt).map(|i| 1000 + i * 37 % 20_000).collect();
        let tokens = Array::from_slice(&ids, &[prompt]);
        let (mut prefill, mut decode) = (vec![], vec![]);
        for _ in 0..rounds {
            let (mut caches, start) = (Model::caches(), cpu());
            let mut next = model.forward(&tokens, &mut caches, false)?;
            eval([&next])?;
            prefill.push(cpu() - start);
            let start = cpu();
            for _ in 0..count {
                // As an engine does: the next step is scheduled before this one's token is read.
                let after = model.forward(&next, &mut caches, false)?;
                async_eval([&after])?;
                eval([&next])?;
                next = after;
            }
            eval([&next])?;
            decode.push(cpu() - start);
        }
        println!(
            "{prompt:>8} {:>9.1} {:>9.1}",
            f64::from(prompt) / median(prefill),
            f64::from(count) / median(decode)
        );
    }
    println!("\nverify after 32 tokens, CPU ms and the cost against one row");
    let widths = [1, 2, 3, 4, 5, 8, 16, 32];
    let mut caches = Model::caches();
    eval([&model.forward(&Array::from_slice(&(0..32).collect::<Vec<i32>>(), &[32]), &mut caches, false)?])?;
    let mut times = vec![vec![]; widths.len()];
    for _ in 0..15 {
        for (width, times) in widths.iter().zip(&mut times) {
            let block = Array::from_slice(&vec![500; *width as usize], &[*width]);
            let start = cpu();
            eval([&model.forward(&block, &mut caches, true)?])?;
            times.push(cpu() - start);
            for cache in &mut caches {
                cache.trim(32);
            }
        }
    }
    let times: Vec<f64> = times.into_iter().map(median).collect();
    for (width, time) in widths.iter().zip(&times) {
        println!("{width:>8} {:>9.2} {:>9.2}x", time * 1e3, time / times[0]);
    }
    Ok(())
}

fn main() -> Result<()> {
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|arg| arg == "--test") {
        return Ok(());
    }
    println!("kernels: {}, {} thread(s)\n", mlx_cpu::instruction_set(), threads());
    // Named parts only, or everything.
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    if wanted("linear") {
        table()?;
    }
    if wanted("decoder") || wanted("verify") {
        decoder(wanted("decoder"))?;
    }
    Ok(())
}
