//! What nvcc makes, also from NVSHMEM's headers. `tests/compile.sh` compiles it; GPU_SIM_PTX names the folder.

mod common;

use common::{Desk, launch, placed};
use gpu_sim_interpreter::{Answer, Kind};

fn ptx(name: &str) -> String {
    let folder = std::env::var("GPU_SIM_PTX").expect("GPU_SIM_PTX names the folder that tests/compile.sh filled");
    std::fs::read_to_string(format!("{folder}/{name}.ptx")).expect("tests/compile.sh made it")
}

#[test]
#[ignore = "needs GPU_SIM_PTX"]
fn a_transposition_through_shared_memory_is_right_for_every_seed() {
    let mut desk = Desk::default();
    let placed = placed(&mut desk, &ptx("plain"));
    const SIDE: usize = 70;
    let (input, output) = (desk.words(SIDE * SIDE / 2), desk.words(SIDE * SIDE / 2));
    let floats = |words: &[u64]| -> Vec<u32> { words.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect() };
    (0..SIDE * SIDE).for_each(|i| input[i / 2] |= (i as u64 + 1) << (32 * (i % 2)));
    for seed in 0..5 {
        output.fill(0);
        let (from, to) = (input.as_ptr() as u64, output.as_ptr() as u64);
        launch(&desk, &placed, "transpose", [[3, 3, 1], [32, 8, 1]], &[from, to, SIDE as u64], seed).expect("it runs");
        let (from, to) = (floats(input), floats(output));
        (0..SIDE * SIDE).for_each(|i| assert_eq!(to[i], from[i % SIDE * SIDE + i / SIDE], "{i}"));
    }
}

#[test]
#[ignore = "needs GPU_SIM_PTX"]
fn a_removed_barrier_is_noticed() {
    let text = ptx("plain");
    let without = text.replacen("bar.sync \t0;", "", 1);
    assert_ne!(text, without);
    let mut desk = Desk::default();
    let placed = placed(&mut desk, &without);
    let (input, output) = (desk.words(512), desk.words(512));
    let (from, to) = (input.as_ptr() as u64, output.as_ptr() as u64);
    let told = launch(&desk, &placed, "transpose", [[1, 1, 1], [32, 8, 1]], &[from, to, 32], 1).unwrap_err();
    assert_eq!(told.kind, Kind::Uninitialised, "{told}");
}

#[test]
#[ignore = "needs GPU_SIM_PTX"]
fn wide_accesses_must_be_aligned_and_inside() {
    let mut desk = Desk::default();
    let placed = placed(&mut desk, &ptx("plain"));
    let words = desk.words(200);
    let start = (words.as_ptr() as u64).next_multiple_of(16);
    let (input, output) = (start, start + 800);
    let run = |from: u64, to: u64, count: u64| {
        launch(&desk, &placed, "wide", [[2, 1, 1], [8, 1, 1]], &[from, to, count], 3).map(drop).map_err(|f| f.kind)
    };
    words.iter_mut().enumerate().for_each(|(i, word)| *word = i as u64);
    assert_eq!(run(input, output, 40), Ok(()));
    assert_eq!(words[100..180], words[..80]);
    assert_eq!(run(input + 8, output, 40), Err(Kind::Alignment));
    assert_eq!(run(input, output, 60), Err(Kind::Address));
}

#[test]
#[ignore = "needs GPU_SIM_PTX"]
fn calls_branches_warps_atomics_and_spinning_work() {
    for seed in 0..3 {
        let mut desk = Desk::default();
        let placed = placed(&mut desk, &ptx("plain"));
        let (output, flag) = (desk.words(700), desk.words(1));
        let flag_address = flag.as_ptr() as u64;
        let parameters = [1_000_003, 10, 2, output.as_ptr() as u64, flag_address];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: the word lives for ever, and the kernel uses it as an atomic.
                let flag = unsafe { &*(flag_address as *const std::sync::atomic::AtomicU64) };
                while flag.load(std::sync::atomic::Ordering::Acquire) != 1 {
                    std::thread::yield_now();
                }
                flag.store(2, std::sync::atomic::Ordering::Release);
            });
            launch(&desk, &placed, "mixed", [[1, 1, 1], [32, 1, 1]], &parameters, seed).expect("it runs");
        });
        let table = [3u64, 1, 4, 1];
        for thread in 0..32u64 {
            let value = 1_000_003 + thread;
            let (quotient, rest) = (value / 10, value % 10);
            let q = match thread & 7 {
                0 => quotient + 1,
                1 => quotient * 3,
                2 => quotient ^ 5,
                3 => quotient << 2,
                4 => quotient >> 1,
                5 => quotient - 7,
                _ => !quotient,
            };
            let place = q.wrapping_add(2) & 7;
            let right = q.wrapping_add(rest).wrapping_add(1_000_003 * place + table[place as usize & 3]);
            assert_eq!(output[thread as usize], right, "thread {thread}");
            let ballot = 0xaaaa_aaaau64;
            assert_eq!(output[200 + thread as usize], ((thread + 1).min(31) + ballot) as u32 as u64);
            assert_eq!(output[300 + thread as usize], 3);
        }
    }
}

#[test]
#[ignore = "needs GPU_SIM_PTX"]
fn nvshmem_s_headers_are_understood() {
    // A peer that cannot be reached: every operation is a call.
    let mut desk = Desk::default();
    for (name, wide) in [
        ("transfer_put_signal_dispatchIL13threadgroup_t3", true),
        ("transfer_put_signal_dispatchIL13threadgroup_t0", false),
        ("transfer_amo_nonfetch", false),
        ("transfer_rma_p", false),
        ("transfer_rma_nbi", false),
        ("transfer_quietIL13threadgroup_t0", false),
        ("transfer_fenceIL13threadgroup_t0", false),
        ("transfer_syncapi_update_mem", false),
    ] {
        desk.functions.insert(name.into(), (wide, Box::new(|_, _| Ok(Answer::Done(Vec::new())))));
    }
    let placed = placed(&mut desk, &ptx("nvshmem"));
    let (heap, peers) = (desk.words(64), desk.words(2));
    let state = placed.module().globals().iter().position(|global| global.name == "nvshmemi_device_state_d");
    let state = placed.address(state.expect("the headers' state"));
    // SAFETY: the state has 848 bytes, which nobody else uses yet.
    let set = |offset: u64, value: u64| unsafe { ((state + offset) as *mut u64).write(value) };
    set(8, 2); // PEs
    set(32, 3); // connected, also by transfers
    set(40, heap.as_ptr() as u64);
    set(48, 512);
    set(56, peers.as_ptr() as u64);
    heap[32] = 7; // the signal that the kernel waits for
    let at = |word: u64| heap.as_ptr() as u64 + 8 * word;
    let parameters = [at(0), at(8), 64, at(32), 1];
    launch(&desk, &placed, "remote", [[1, 1, 1], [64, 1, 1]], &parameters, 5).expect("it runs");
    let called = desk.called.lock().unwrap();
    let count = |name: &str| called.iter().filter(|called| called.contains(name)).count();
    assert_eq!(count("dispatchIL13threadgroup_t3"), 1, "{called:?}");
    assert!(count("transfer_quiet") >= 1 && count("transfer_amo_nonfetch") == 1, "{called:?}");
}
