//! The crate konsumer_offsets over a file of records: see benchmarks/peers/README.md.

use konsumer_offsets::KonsumerOffsetsData;
use std::{env, fs, hint::black_box};

type Record<'a> = (&'a [u8], Option<&'a [u8]>);

fn load(data: &[u8]) -> Vec<Record<'_>> {
    let mut at = 0;
    let mut piece = || {
        let size = i32::from_le_bytes(data[at..at + 4].try_into().unwrap());
        at += 4;
        if size < 0 {
            return (None, at == data.len());
        }
        at += size as usize;
        (Some(&data[at - size as usize..at]), at == data.len())
    };
    let mut records = Vec::new();
    loop {
        let (key, _) = piece();
        let (value, last) = piece();
        records.push((key.unwrap(), value));
        if last {
            return records;
        }
    }
}

fn known(key: &[u8]) -> bool {
    key[0] == 0 && key[1] <= 2
}

fn cpu() -> f64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let data = fs::read(&arguments[1]).unwrap();
    let records = load(&data);
    let keep = arguments[2] == "kept";
    let passes: usize = arguments[3].parse().unwrap();
    let mut best = f64::INFINITY;
    let mut read = 0;
    for _ in 0..passes {
        read = 0;
        let start = cpu();
        let mut kept: Vec<KonsumerOffsetsData> =
            Vec::with_capacity(if keep { records.len() } else { 0 });
        for (key, value) in &records {
            if !known(key) {
                continue;
            }
            // A version it does not know is an error, and not counted as read.
            if let Ok(one) = KonsumerOffsetsData::try_from_bytes(Some(key), *value) {
                read += 1;
                if keep {
                    kept.push(one);
                } else {
                    black_box(one);
                }
            }
        }
        best = best.min(cpu() - start);
        black_box(&kept);
    }
    println!("{{\"seconds\": {best}, \"read\": {read}, \"peak_kib\": {}}}", peak());
}
