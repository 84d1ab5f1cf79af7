//! Reading back: the folder opens as the loader opens it, and every byte of every tensor is the one that was written.

use super::{
    ConvertError, Result,
    plan::{Plan, hex},
};
use crate::load::Checkpoint;
use dspark_hub::{Job, Stage};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt, path::Path};

const PIECE: u64 = 4 << 20;

pub(super) fn run(plan: &Plan, dir: &Path, digests: &BTreeMap<String, String>, job: &Job) -> Result<()> {
    let checkpoint = Checkpoint::open(dir)?;
    let total: u64 = plan.items.iter().flat_map(|item| &item.slots).map(|slot| slot.bytes).sum();
    let (mut done, mut seen, mut piece) = (0, 0, Vec::new());
    for shard in &checkpoint.shards {
        let path = &shard.path;
        let file = File::open(path).map_err(ConvertError::io("open", path))?;
        for (name, at) in super::plan::offsets(path)? {
            let readback = || ConvertError::Readback {
                name: name.clone(),
                path: path.clone(),
            };
            let (info, digest) = shard.tensors.get(&name).zip(digests.get(&name)).ok_or_else(readback)?;
            let (mut hash, mut read) = (Sha256::new(), 0);
            while read < info.bytes {
                if job.token().is_cancelled() {
                    return Err(ConvertError::Cancelled);
                }
                piece.resize(PIECE.min(info.bytes - read) as usize, 0);
                file.read_exact_at(&mut piece, at + read).map_err(ConvertError::io("read", path))?;
                hash.update(&piece);
                read += piece.len() as u64;
                done += piece.len() as u64;
                job.report(Stage::Verifying, &name, done, total);
            }
            if hex(&hash.finalize()) != *digest {
                return Err(readback());
            }
            seen += 1;
        }
    }
    if seen == plan.tensors() {
        return Ok(());
    }
    Err(ConvertError::Readback {
        name: format!("{} of {}", seen, plan.tensors()),
        path: dir.to_owned(),
    })
}
