//! A machine with some memory, and launches on it.

#![allow(dead_code)] // not every test uses all

use gpu_sim_interpreter::{Access, Answer, Caller, Fault, Launch, Machine, Module, Placed, Settings, Statistics, run};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Function = Box<dyn Fn(&[Vec<u8>], Caller) -> Result<Answer, String> + Sync>;

/// Memory that kernels may use, and functions that they may call.
#[derive(Default)]
pub struct Desk {
    pub memory: Vec<Range<u64>>,
    pub functions: HashMap<String, (bool, Function)>,
    pub printed: Mutex<String>,
    pub called: Mutex<Vec<String>>,
}

impl Machine for Desk {
    fn check(&self, address: u64, bytes: usize, _: Access) -> Result<(), String> {
        let is_in = |range: &Range<u64>| range.start <= address && address + bytes as u64 <= range.end;
        if self.memory.iter().any(is_in) { Ok(()) } else { Err(format!("{bytes} bytes at {address:#x}")) }
    }

    fn is_block_wide(&self, function: &str) -> bool {
        self.functions.iter().any(|(name, (wide, _))| function.contains(name) && *wide)
    }

    fn call(&self, function: &str, arguments: &[Vec<u8>], _: usize, caller: Caller) -> Result<Answer, String> {
        self.called.lock().unwrap().push(function.to_owned());
        let found = self.functions.iter().find(|(name, _)| function.contains(*name));
        found.map_or(Err("nobody answers".into()), |(_, (_, answer))| answer(arguments, caller))
    }

    fn print(&self, text: &str) {
        self.printed.lock().unwrap().push_str(text);
    }
}

impl Desk {
    /// Memory of so many words.
    pub fn words(&mut self, count: usize) -> &'static mut [u64] {
        let words = vec![0u64; count].leak();
        let start = words.as_ptr() as u64;
        self.memory.push(start..start + 8 * count as u64);
        words
    }
}

/// A module with its variables in memory of the desk.
pub fn placed(desk: &mut Desk, ptx: &str) -> Placed {
    let module = Module::parse(ptx).expect("PTX");
    assert_eq!(module.unknown(), Vec::<String>::new());
    let mut addresses = HashMap::new();
    for global in module.globals() {
        let words = desk.words(global.bytes.div_ceil(8).max(1));
        for (index, byte) in global.initial.iter().enumerate() {
            words[index / 8] |= (*byte as u64) << (8 * (index % 8));
        }
        addresses.insert(global.name.clone(), words.as_ptr() as u64);
    }
    Placed::new(Arc::new(module), addresses).expect("every variable has a place")
}

pub fn settings(seed: u64) -> Settings {
    Settings { seed, step_limit: 20_000, time_limit: Duration::from_secs(1), resident_blocks: 8 }
}

/// Runs a kernel whose parameters are words.
pub fn launch(
    desk: &Desk,
    placed: &Placed,
    kernel: &str,
    [grid, block]: [[u32; 3]; 2],
    parameters: &[u64],
    seed: u64,
) -> Result<Statistics, Fault> {
    let bytes: Vec<u8> = parameters.iter().flat_map(|word| word.to_le_bytes()).collect();
    let most = placed.module().kernel(kernel).map_or(0, |kernel| kernel.parameter_bytes);
    let launch = Launch { kernel, grid, block, dynamic_shared_bytes: 0, parameters: &bytes[..most.min(bytes.len())] };
    run(placed, &launch, desk, &settings(seed))
}
