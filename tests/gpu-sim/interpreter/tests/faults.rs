//! Every kind of mistake is told, with its line; what is right runs the same for the same seed.

mod common;

use common::{Desk, launch, placed, settings};
use gpu_sim_interpreter::{Answer, Kind, Launch, Module, run};

/// A kernel `k` with two addresses in %rd1 and %rd2, the thread in %r1, and these instructions.
fn kernel(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_80\n.address_size 64\n\
         .extern .func (.param .b64 r) together (.param .b64 a);\n\
         .extern .func alone (.param .b64 a);\n\
         .visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n\
         .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<5>; .reg .b16 %rs<3>;\n\
         .shared .align 8 .b8 tile[256];\n\
         ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    )
}

fn told(body: &str, threads: u32) -> (Kind, String) {
    let mut desk = Desk::default();
    desk.functions.insert("together".into(), (true, Box::new(|_, _| Ok(Answer::Done(vec![7, 0, 0, 0, 0, 0, 0, 0])))));
    desk.functions.insert("alone".into(), (false, Box::new(|_, _| Err("not today".into()))));
    let module = Module::parse(&kernel(body)).expect("PTX");
    let words = desk.words(16);
    let (first, second) = (words.as_ptr() as u64, words.as_ptr() as u64 + 64);
    let placed = gpu_sim_interpreter::Placed::new(module.into(), Default::default()).expect("no variables");
    let fault = launch(&desk, &placed, "k", [[1, 1, 1], [threads, 1, 1]], &[first, second], 1).unwrap_err();
    (fault.kind, fault.text)
}

#[test]
fn mistakes_are_told_with_their_line() {
    for (kind, threads, body, says) in [
        (Kind::Address, 1, "ld.global.u64 %rd3, [%rd1+128];", "ld.global.u64"),
        (Kind::Address, 1, "st.global.u8 [%rd1-1], %rs1;", "st.global.u8"),
        (Kind::Alignment, 1, "ld.global.u32 %r2, [%rd1+2];", "ld.global.u32"),
        (Kind::Alignment, 1, "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+8];", "multiple of 16"),
        (Kind::Address, 1, "mov.u32 %r2, tile; st.shared.u64 [%r2+256], %rd1;", "shared"),
        (Kind::Uninitialised, 1, "mov.u32 %r2, tile; ld.shared.u64 %rd3, [%r2];", "before they are written"),
        (Kind::Trap, 1, "trap;", "trap"),
        (Kind::Unknown, 1, "wmma.load.a %r1;", "wmma.load.a"),
        (
            Kind::Timeout,
            1,
            "L: ld.volatile.global.u64 %rd3, [%rd1]; setp.eq.u64 %p1, %rd3, 0; @%p1 bra L;",
            "instructions",
        ),
        (Kind::Deadlock, 2, "setp.eq.u32 %p1, %r1, 0; @%p1 bar.sync 0, 64;", "1 at line"),
        (
            Kind::Deadlock,
            2,
            "setp.eq.u32 %p1, %r1, 0; @%p1 bra A; bar.sync 0; bra B;\nA: bar.sync 0; B:",
            "different barriers",
        ),
        (Kind::Call, 1, "{ .param .b64 q; st.param.b64 [q], %rd1; call alone, (q); }", "not today"),
    ] {
        let (found, text) = told(body, threads);
        assert_eq!(found, kind, "{body}: {text}");
        assert!(text.contains(says) && text.contains("kernel k"), "{body}: {text}");
    }
}

#[test]
fn a_call_of_the_whole_block_needs_the_whole_block() {
    let call =
        "{ .param .b64 q; .param .b64 w; st.param.b64 [q], %rd3; call (w), together, (q); ld.param.b64 %rd4, [w]; }";
    let same = format!("mov.u64 %rd3, 5; {call} st.global.u64 [%rd1], %rd4;");
    let mut desk = Desk::default();
    desk.functions.insert("together".into(), (true, Box::new(|given, _| Ok(Answer::Done(given[0].clone())))));
    let placed = placed(&mut desk, &kernel(&same));
    let words = desk.words(2);
    let address = words.as_ptr() as u64;
    launch(&desk, &placed, "k", [[2, 1, 1], [40, 1, 1]], &[address, address], 1).expect("it runs");
    assert_eq!((words[0], desk.called.lock().unwrap().len()), (5, 2));

    let (kind, text) = told(&format!("mov.u64 %rd3, 5; setp.eq.u32 %p1, %r1, 0; @%p1 bra E; {call} E:"), 3);
    assert!(kind == Kind::Deadlock && text.contains("part of the block"), "{text}");
    let (kind, text) = told(&format!("cvt.u64.u32 %rd3, %r1; {call}"), 3);
    assert!(kind == Kind::Deadlock && text.contains("different arguments"), "{text}");
}

#[test]
fn unknown_things_are_listed() {
    let module = Module::parse(&kernel("wmma.load.a %r1;\nadd.u32 %r1, %r1, 1;\nmul24.lo.u32 %r2, %r1, %r1;")).unwrap();
    let unknown = module.unknown();
    assert_eq!(unknown.len(), 2, "{unknown:?}");
    assert!(unknown[0].contains("wmma") && unknown[1].contains("mul24"), "{unknown:?}");
    assert_eq!(Module::parse(".entry k( {").unwrap_err().kind, Kind::Syntax);
}

#[test]
fn a_launch_must_be_one_that_a_device_takes() {
    let mut desk = Desk::default();
    let placed = placed(&mut desk, &kernel(""));
    for (grid, block, bytes, shared) in [
        ([0, 1, 1], [1, 1, 1], 16, 0),
        ([1, 1, 1], [1025, 1, 1], 16, 0),
        ([1, 1, 1], [1, 1, 1], 8, 0),
        ([1; 3], [1; 3], 16, 240_000),
    ] {
        let parameters = vec![0; bytes];
        let launch = Launch { kernel: "k", grid, block, dynamic_shared_bytes: shared, parameters: &parameters };
        assert_eq!(run(&placed, &launch, &desk, &settings(1)).unwrap_err().kind, Kind::Launch);
    }
}

/// Threads write their numbers to one place: the last to come wins.
#[test]
fn the_seed_decides_who_comes_last() {
    let winner = |seed: u64| {
        let mut desk = Desk::default();
        let placed = placed(&mut desk, &kernel("st.global.u32 [%rd1], %r1;"));
        let words = desk.words(1);
        let address = words.as_ptr() as u64;
        launch(&desk, &placed, "k", [[4, 1, 1], [64, 1, 1]], &[address, address], seed).expect("it runs");
        words[0]
    };
    let winners: std::collections::BTreeSet<u64> = (0..20).map(winner).collect();
    assert!(winners.len() > 5, "{winners:?}");
    (0..20).for_each(|seed| assert_eq!(winner(seed), winner(seed)));
}

#[test]
fn barriers_hold_and_warps_exchange() {
    // Each thread hands its number to the next through shared memory, and to its neighbour by a shuffle.
    let body = "mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1; bar.sync 0;\n\
                xor.b32 %r5, %r3, 4; add.u32 %r5, %r2, %r5; ld.shared.u32 %r6, [%r5];\n\
                shfl.sync.bfly.b32 %r7|%p1, %r1, 1, 31, -1; vote.sync.ballot.b32 %r8, %p1, -1;\n\
                sub.u32 %r6, %r6, %r7; cvt.u64.u32 %rd3, %r3; add.u64 %rd3, %rd1, %rd3; add.u32 %r6, %r6, %r8;\n\
                st.global.u32 [%rd3], %r6;";
    for seed in 0..20 {
        let mut desk = Desk::default();
        let placed = placed(&mut desk, &kernel(body));
        let words = desk.words(32);
        let address = words.as_ptr() as u64;
        launch(&desk, &placed, "k", [[1, 1, 1], [64, 1, 1]], &[address, address], seed).expect("it runs");
        assert!(words.iter().all(|word| *word == u64::MAX), "{words:x?}");
    }
}
