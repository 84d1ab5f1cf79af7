//! The modules of a spec, flat: for checks before anything is read, and for counting.

use super::{
    AttentionSpec, BlockSpec, ConvSpec, DecoderSpec, DenseSpec, FfnSpec, GateSpec, GatedDeltaSpec, HeadNormSpec, HeadSpec, KvSpec,
    LinearSpec, MambaSpec, MixerSpec, MoeSpec, NormSpec, ShortConvSpec, TableSpec, VectorSpec,
};

/// A module that owns tensors.
#[derive(Debug, Clone, Copy)]
pub enum Module<'a> {
    Linear(&'a LinearSpec),
    /// So many linear layers in one tensor.
    Experts(usize, &'a LinearSpec),
    /// Path, rows, columns.
    Table(&'a str, usize, usize),
    Norm(&'a NormSpec),
    Vector(&'a VectorSpec),
    Conv(&'a ConvSpec),
}

impl Module<'_> {
    fn parameters(&self) -> u64 {
        let linear = |linear: &LinearSpec| linear.outputs * (linear.inputs + usize::from(linear.bias));
        let count = match self {
            Self::Linear(spec) => linear(spec),
            Self::Experts(count, spec) => count * linear(spec),
            Self::Table(_, rows, columns) => rows * columns,
            Self::Norm(norm) => norm.size,
            Self::Vector(vector) => vector.size,
            Self::Conv(conv) => conv.channels * (conv.kernel + usize::from(conv.bias)),
        };
        count as u64
    }
}

impl DecoderSpec {
    /// Every module, in order of use.
    pub fn modules(&self) -> Vec<Module<'_>> {
        let mut modules = vec![Module::Table(&self.embedding, self.vocab, self.hidden)];
        if let Some(inputs) = &self.layer_inputs {
            let TableSpec { path, rows, columns } = &inputs.table;
            modules.extend([
                Module::Table(path, *rows, *columns),
                Module::Linear(&inputs.project),
                Module::Norm(&inputs.norm),
            ]);
        }
        for block in &self.blocks {
            of_block(block, &mut modules);
        }
        modules.push(Module::Norm(&self.norm));
        if let HeadSpec::Own(head) = &self.head {
            modules.push(Module::Linear(head));
        }
        modules
    }

    /// Parameters, each packed weight counted once.
    pub fn parameters(&self) -> u64 {
        self.modules().iter().map(Module::parameters).sum()
    }
}

fn of_block<'a>(block: &'a BlockSpec, modules: &mut Vec<Module<'a>>) {
    if let Some(part) = &block.mixer {
        modules.push(Module::Norm(&part.norm));
        match &part.inner {
            MixerSpec::Attention(attention) => of_attention(attention, modules),
            MixerSpec::ShortConv(spec) => of_short_conv(spec, modules),
            MixerSpec::GatedDelta(spec) => of_gated_delta(spec, modules),
            MixerSpec::Mamba(spec) => of_mamba(spec, modules),
        }
        modules.extend(part.post.iter().map(Module::Norm));
    }
    if let Some(part) = &block.ffn {
        modules.push(Module::Norm(&part.norm));
        match &part.inner {
            FfnSpec::Dense(dense) => of_dense(dense, modules),
            FfnSpec::Moe(moe) => of_moe(moe, modules),
            FfnSpec::Parallel(parallel) => {
                of_dense(&parallel.dense, modules);
                modules.extend([&parallel.dense_post, &parallel.moe_norm, &parallel.moe_post].map(Module::Norm));
                of_moe(&parallel.moe, modules);
            }
        }
        modules.extend(part.post.iter().map(Module::Norm));
    }
    if let Some(input) = &block.input {
        modules.extend([
            Module::Linear(&input.gate),
            Module::Linear(&input.project),
            Module::Norm(&input.norm),
        ]);
    }
    modules.extend(block.scalar.iter().map(Module::Vector));
}

fn of_attention<'a>(attention: &'a AttentionSpec, modules: &mut Vec<Module<'a>>) {
    modules.push(Module::Linear(&attention.q));
    if let KvSpec::Own { k, v, .. } = &attention.kv {
        modules.extend([k].into_iter().chain(v).map(Module::Linear));
    }
    if let Some(GateSpec::Own(gate)) = &attention.gate {
        modules.push(Module::Linear(gate));
    }
    modules.push(Module::Linear(&attention.o));
    for norm in [&attention.q_norm, &attention.k_norm] {
        if let HeadNormSpec::Weight(norm) = norm {
            modules.push(Module::Norm(norm));
        }
    }
}

fn of_short_conv<'a>(spec: &'a ShortConvSpec, modules: &mut Vec<Module<'a>>) {
    modules.extend([Module::Linear(&spec.input), Module::Conv(&spec.conv), Module::Linear(&spec.output)]);
}

fn of_gated_delta<'a>(spec: &'a GatedDeltaSpec, modules: &mut Vec<Module<'a>>) {
    modules.extend([&spec.qkv, &spec.z, &spec.b, &spec.a, &spec.output].map(Module::Linear));
    modules.extend([Module::Conv(&spec.conv), Module::Norm(&spec.norm)]);
    modules.extend([&spec.a_log, &spec.dt_bias].map(Module::Vector));
}

fn of_mamba<'a>(spec: &'a MambaSpec, modules: &mut Vec<Module<'a>>) {
    modules.extend([&spec.input, &spec.output].map(Module::Linear));
    modules.extend([Module::Conv(&spec.conv), Module::Norm(&spec.norm)]);
    modules.extend([&spec.a_log, &spec.dt_bias, &spec.d].map(Module::Vector));
}

fn of_dense<'a>(dense: &'a DenseSpec, modules: &mut Vec<Module<'a>>) {
    modules.extend(dense.gate.iter().chain([&dense.up, &dense.down]).map(Module::Linear));
}

fn of_moe<'a>(moe: &'a MoeSpec, modules: &mut Vec<Module<'a>>) {
    let router = &moe.router;
    modules.push(Module::Linear(&router.gate));
    modules.extend(router.norm.iter().map(|(scale, ..)| Module::Vector(scale)));
    modules.extend([&router.bias, &router.per_expert].into_iter().flatten().map(Module::Vector));
    let each = &moe.experts.each;
    let experts = each.gate.iter().chain([&each.up, &each.down]);
    modules.extend(experts.map(|linear| Module::Experts(moe.experts.count, linear)));
    if let Some((into, out)) = &moe.latent {
        modules.extend([into, out].map(Module::Linear));
    }
    if let Some(shared) = &moe.shared {
        of_dense(&shared.dense, modules);
        modules.extend(shared.gate.iter().map(Module::Linear));
    }
}
