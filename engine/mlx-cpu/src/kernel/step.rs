//! Entries: rotate, attend, and one whole step from projections to heads with the cache written in place.

use super::{
    attention::{Attend, Head, Sight, Tree, Turn, check, prepare, run},
    elementwise::with_buffer,
    entry::{Call, Outcome, Rows, dense, entry, float, shape},
    simd::{Float, Isa},
};
use mlx_sys::mlx_host_view as View;

/// Parameters of every entry here, as the numbers that travel with the operation. Lists follow the header.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params {
    pub(crate) heads: i64,
    pub(crate) kv_heads: i64,
    pub(crate) scale: f32,
    /// Keys before the rows of this call.
    pub(crate) context: i64,
    /// -1: none.
    pub(crate) window: i64,
    pub(crate) full: bool,
    pub(crate) traditional: bool,
    /// Eps of the norms of queries and keys.
    pub(crate) norms: [Option<f32>; 2],
    pub(crate) turned: bool,
    pub(crate) sinks: bool,
    /// Words of ancestor bits to a row; 0: no tree.
    pub(crate) words: i64,
    /// `[B * L]`, where `turned`.
    pub(crate) positions: Vec<i64>,
    /// `[B * L]` and `[B * L * words]`.
    pub(crate) depths: Vec<i64>,
    pub(crate) bits: Vec<i64>,
}

const HEADER: usize = 16;

impl Params {
    pub(crate) fn numbers(&self) -> Vec<i64> {
        let (flag, bits) = (i64::from, |v: f32| i64::from(v.to_bits()));
        let norm = |n: Option<f32>| n.map_or([0, 0], |eps| [1, bits(eps)]);
        let ([q, q_eps], [k, k_eps]) = (norm(self.norms[0]), norm(self.norms[1]));
        let mut all = vec![
            self.heads,
            self.kv_heads,
            bits(self.scale),
            self.context,
            self.window,
            flag(self.full),
            flag(self.traditional),
        ];
        all.extend([
            q,
            q_eps,
            k,
            k_eps,
            flag(self.turned),
            flag(self.sinks),
            self.words,
            self.positions.len() as i64,
            self.depths.len() as i64,
        ]);
        all.extend(self.positions.iter().chain(&self.depths).chain(&self.bits));
        all
    }
}

/// The same, read.
struct Read<'a> {
    p: &'a [i64],
    positions: &'a [i64],
    depths: &'a [i64],
    bits: &'a [i64],
}

impl<'a> Read<'a> {
    /// Checks the lists against `rows`, B * L.
    fn new(p: &'a [i64], rows: usize) -> Result<Self, String> {
        let (header, rest) = p.split_at_checked(HEADER).ok_or("the parameters are cut off")?;
        let (positions, rest) = rest.split_at_checked(header[14] as usize).ok_or("the positions are cut off")?;
        let (depths, bits) = rest.split_at_checked(header[15] as usize).ok_or("the depths are cut off")?;
        let read = Self {
            p: header,
            positions,
            depths,
            bits,
        };
        let words = header[13] as usize;
        if (read.flag(11) && positions.len() != rows) || (words > 0 && (depths.len() != rows || bits.len() != rows * words)) {
            return Err(format!(
                "{} positions, {} depths and {} words of {words} for {rows} rows",
                positions.len(),
                depths.len(),
                bits.len()
            ));
        }
        Ok(read)
    }

    fn flag(&self, i: usize) -> bool {
        self.p[i] != 0
    }

    fn float(&self, i: usize) -> f32 {
        f32::from_bits(self.p[i] as u32)
    }

    fn sight(&self, len: usize) -> Sight<'a> {
        let tree = (self.p[13] > 0).then_some(Tree {
            bits: self.bits,
            words: self.p[13] as usize,
            depths: self.depths,
        });
        let window = usize::try_from(self.p[4]).ok();
        Sight {
            context: self.p[3] as usize,
            len,
            window,
            full: self.flag(5),
            tree,
        }
    }

    /// The turn by `table`, checked to hold every position.
    fn turn(&self, table: &View, dim: usize) -> Result<Turn, String> {
        let &[positions, width] = shape(table) else {
            return Err(format!("a rope table of shape {:?}", shape(table)));
        };
        if !dense(table)
            || float(table)? != Float::F32
            || width as usize > dim
            || self.positions.iter().any(|p| !(0..positions).contains(p))
        {
            return Err(format!(
                "a rope table of shape {:?} for heads of {dim} at {:?}",
                shape(table),
                self.positions
            ));
        }
        Ok(Turn {
            table: table.data.cast_const().cast(),
            pairs: width as usize / 2,
            traditional: self.flag(6),
        })
    }
}

/// A vector of `len` f32.
fn vector(view: &View, len: usize) -> Result<*const f32, String> {
    if shape(view) != [len as i64] || float(view)? != Float::F32 || !dense(view) {
        return Err(format!(
            "expected {len} floats of 32 bits, not type {} of shape {:?}",
            view.dtype,
            shape(view)
        ));
    }
    Ok(view.data.cast_const().cast())
}

entry!(rope, run_rope);
entry!(attend, run_attend);
entry!(step, run_step);

/// Inputs x `[B, H, L, D]` and the table.
unsafe fn run_rope(call: &Call) -> Outcome {
    let ([x, table], [y]) = (call.inputs, call.outputs) else {
        return Err("rope: an input is missing".into());
    };
    let (from, to) = (Rows::new(x)?, Rows::new(y)?);
    let &[b, h, l, d] = shape(x) else {
        return Err(format!("x of shape {:?}", shape(x)));
    };
    let (h, l, d) = (h as usize, l as usize, d as usize);
    let read = Read::new(call.params, b as usize * l)?;
    let head = Head {
        dim: d,
        norm: None,
        turn: Some(read.turn(table, d)?),
        positions: read.positions,
    };
    with_buffer(2 * d, |buffer| {
        for row in 0..from.count {
            let start = from.floats(row, buffer);
            prepare(
                Isa::detect(),
                &head,
                start,
                buffer.add(d),
                row / (h * l) * l + row % l,
                Isa::detect(),
            );
            let out = to.start(row).cast_mut();
            (0..d).for_each(|i| to.kind.put(out, i, *buffer.add(d + i)));
        }
    });
    Ok(())
}

/// Inputs q `[B, H, L, D]`, keys and values `[B, Hkv, total, D]`, perhaps sinks.
unsafe fn run_attend(call: &Call) -> Outcome {
    let [q, keys, values, rest @ ..] = call.inputs else {
        return Err("attend: an input is missing".into());
    };
    let (from, to) = (Rows::new(q)?, Rows::new(&call.outputs[0])?);
    let &[b, h, l, d] = shape(q) else {
        return Err(format!("queries of shape {:?}", shape(q)));
    };
    let (batch, heads, len, dim) = (b as usize, h as usize, l as usize, d as usize);
    let read = Read::new(call.params, batch * len)?;
    let query = |b: usize, h: usize, i: usize, to: *mut f32| {
        let start = from.floats((b * heads + h) * len + i, to);
        if start != to.cast_const() {
            start.copy_to_nonoverlapping(to, dim);
        }
    };
    let result = |b: usize, h: usize, i: usize| to.start((b * heads + h) * len + i).cast_mut();
    let sinks = match rest {
        [sinks] => vector(sinks, heads)?,
        _ => std::ptr::null(),
    };
    run(&Attend {
        query: &query,
        result: &result,
        result_type: to.kind,
        keys,
        values,
        batch,
        heads,
        kv_heads: keys.shape[1] as usize,
        dim,
        scale: read.float(2),
        sinks,
        sight: read.sight(len),
    })
}

/// Inputs qkv `[B, L, (H + 2 Hkv) D]`, the cache's keys and values, then, where there are such, the rope table, the norm weights of
/// queries and keys, the sinks. Outputs: `[B, L, H D]`, and the cache again, usually the same buffers.
unsafe fn run_step(call: &Call) -> Outcome {
    let ([qkv, old_keys, old_values, rest @ ..], [y, keys, values]) = (call.inputs, call.outputs) else {
        return Err("step: an input is missing".into());
    };
    let (from, to, isa) = (Rows::new(qkv)?, Rows::new(y)?, Isa::detect());
    let (&[b, l, _], &[_, kv_heads, capacity, dim]) = (shape(qkv), shape(keys)) else {
        return Err("step: shapes".into());
    };
    let (batch, len, dim, kv_heads) = (b as usize, l as usize, dim as usize, kv_heads as usize);
    let read = Read::new(call.params, batch * len)?;
    let (heads, sight) = (read.p[0] as usize, read.sight(len));
    if from.width != (heads + 2 * kv_heads) * dim || sight.context + len > capacity as usize || shape(values) != shape(keys) {
        return Err(format!(
            "step: {} projections, cache {:?} with {} held",
            from.width,
            shape(keys),
            sight.context
        ));
    }
    let mut rest = rest.iter();
    let mut next = || rest.next().ok_or_else(|| "step: an input is missing".to_string());
    let turn = if read.flag(11) { Some(read.turn(next()?, dim)?) } else { None };
    let q_norm = if read.flag(7) {
        Some((vector(next()?, dim)?, read.float(8)))
    } else {
        None
    };
    let k_norm = if read.flag(9) {
        Some((vector(next()?, dim)?, read.float(10)))
    } else {
        None
    };
    let sinks = if read.flag(12) { vector(next()?, heads)? } else { std::ptr::null() };
    let head = |norm| Head {
        dim,
        norm,
        turn,
        positions: read.positions,
    };
    let (q_head, k_head) = (head(q_norm), head(k_norm));

    let kind = float(keys)?;
    for (old, new) in [(old_keys, keys), (old_values, values)] {
        check(new, kind)?;
        if old.data != new.data {
            // Somebody else holds the old cache (a snapshot): this one goes on in a copy.
            let (old, new) = (Rows::new(old)?, Rows::new(new)?);
            if old.kind != kind || old.count != new.count || old.width != dim {
                return Err("step: the old cache and the new differ".into());
            }
            for row in (0..new.count).filter(|row| row % (capacity as usize) < sight.context) {
                old.start(row).copy_to_nonoverlapping(new.start(row).cast_mut(), dim * kind.size());
            }
        }
    }
    with_buffer(from.width + dim, |buffer| {
        for row in 0..batch * len {
            let start = from.floats(row, buffer.add(dim)).add(heads * dim);
            for h in 0..kv_heads {
                let at = ((row / len * kv_heads + h) * capacity as usize + sight.context + row % len) * dim * kind.size();
                let put = |to: *mut u8, from: *const f32| (0..dim).for_each(|i| kind.put(to, i, *from.add(i)));
                prepare(isa, &k_head, start.add(h * dim), buffer, row, isa);
                put(keys.data.cast::<u8>().add(at), buffer);
                put(values.data.cast::<u8>().add(at), start.add((kv_heads + h) * dim));
            }
        }
    });
    let in_place = from.kind == Float::F32 && qkv.strides[2] == 1;
    let (q_head, from_rows) = (&q_head, &from);
    let query = |b: usize, h: usize, i: usize, to: *mut f32| {
        let row = b * len + i;
        // In place for f32 without gaps; otherwise the whole row is converted first.
        with_buffer(if in_place { 0 } else { from.width }, |buffer| {
            prepare(isa, q_head, from_rows.floats(row, buffer).add(h * dim), to, row, isa);
        });
    };
    let result = |b: usize, h: usize, i: usize| to.start(b * len + i).cast_mut().add(h * dim * to.kind.size());
    run(&Attend {
        query: &query,
        result: &result,
        result_type: to.kind,
        keys,
        values,
        batch,
        heads,
        kv_heads,
        dim,
        scale: read.float(2),
        sinks,
        sight,
    })
}
