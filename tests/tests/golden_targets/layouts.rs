//! Other layouts of the same networks, and what is told about a loaded model.
use crate::{Case, RAW};
use dspark_engine::target::Target;

#[test]
fn raw_names_are_the_same_network() {
    for name in RAW {
        let case = Case::of_folder(name, &format!("{name}-rawnames"));
        let mut cache = case.model.decoder.new_cache();
        let found = case.rows(&case.prompt(), &mut *cache);
        case.check(&case.golden["one_shot"], &found, 0, "raw names");
        assert_eq!(case.model.facts.parameters, Case::open(name).model.facts.parameters, "{name}");
    }
}

#[test]
fn facts() {
    let facts = |name| Case::open(name).model.facts;
    let plain = facts("qwen3");
    assert_eq!(
        (plain.quantization.as_str(), plain.layers, plain.vocab, plain.max_context),
        ("bf16", 3, 192, 4096)
    );
    assert_eq!(plain.eos, [2]);
    assert_eq!(plain.kv_bytes_per_token, 3 * 2 * 2 * 32 * 4);
    // Embedding and head, then per layer projections, feed-forward and norms, then the final norm.
    let layer = 64 * 32 * (4 + 2 + 2 + 4) + 3 * 64 * 96 + 2 * 64 + 2 * 32;
    assert_eq!(plain.parameters, 2 * 192 * 64 + 3 * layer + 64);
    assert_eq!(facts("llama").quantization, "f16");
    assert_eq!(facts("qwen3-q4g32").quantization, "4-bit g32");
    assert_eq!(facts("qwen3-q4-override").quantization, "4-bit g64, mixed");
    assert_eq!(facts("qwen3-mxfp4").quantization, "mxfp4");
    // Three of four layers slide: only one grows with the context.
    assert_eq!(facts("llama-sliding").kv_bytes_per_token, 2 * 2 * 32 * 4);
    assert!(facts("qwen3-q4g32").weight_bytes < facts("qwen3-q8g64").weight_bytes);
    // Of Gemma's six layers three are full, and one of those shares; experts and recurrent states do not grow.
    assert_eq!(facts("gemma4-kvshared").kv_bytes_per_token, 2 * 2 * 64 * 4);
    assert_eq!(facts("qwen3_5_moe").kv_bytes_per_token, 2 * 2 * 32 * 4);
    // Two passes over three layers.
    assert_eq!(
        (facts("nanbeige").layers, facts("nanbeige").kv_bytes_per_token),
        (6, 6 * 2 * 2 * 32 * 4)
    );
    assert_eq!(facts("nemotron_h").layers, 6);
    assert_eq!(facts("muse_glimmer").eos, [181, 188]);
    assert_eq!(facts("lfm2_moe-q4g32").quantization, "4-bit g32, mixed");
}
