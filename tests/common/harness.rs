//! A test harness for programs that start themselves again as ranks, or that count what the whole process does:
//! tests run one after the other, and the summary reads like that of the standard harness.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A test by name.
pub struct Test<'a> {
    pub name: String,
    pub run: Box<dyn Fn() -> Result<(), String> + 'a>,
}

impl<'a> Test<'a> {
    pub fn new(name: impl Into<String>, run: impl Fn() -> Result<(), String> + 'a) -> Test<'a> {
        Test { name: name.into(), run: Box::new(run) }
    }
}

/// Runs the tests that the command line selects.
pub fn run(tests: Vec<Test>) -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut filters, mut skipped, mut exact) = (Vec::new(), Vec::new(), false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--exact" => exact = true,
            "--skip" => skipped.extend(arguments.next()),
            "--test-threads" | "--format" | "--color" | "-Z" | "--logfile" => drop(arguments.next()),
            "--list" => {
                tests.iter().for_each(|test| println!("{}: test", test.name));
                return ExitCode::SUCCESS;
            }
            // Every test here runs by default.
            "--ignored" => filters.push("--ignored".to_owned()),
            option if option.starts_with('-') => {}
            filter => filters.push(filter.to_owned()),
        }
    }
    let matches = |name: &str, filter: &String| if exact { name == filter } else { name.contains(filter.as_str()) };
    let chosen = |name: &str| {
        (filters.is_empty() || filters.iter().any(|f| matches(name, f))) && !skipped.iter().any(|f| matches(name, f))
    };
    let (chosen, left): (Vec<_>, Vec<_>) = tests.into_iter().partition(|test| chosen(&test.name));
    println!("\nrunning {} tests", chosen.len());
    let start = Instant::now();
    let mut failures = Vec::new();
    for test in &chosen {
        let begun = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| (test.run)())).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or(panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or("panicked".into()))
        });
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        println!("test {} ... {verdict} ({:.2}s)", test.name, begun.elapsed().as_secs_f64());
        failures.extend(result.err().map(|text| (&test.name, text)));
    }
    if !failures.is_empty() {
        println!("\nfailures:");
        failures.iter().for_each(|(name, text)| println!("\n---- {name} ----\n{text}"));
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        if failures.is_empty() { "ok" } else { "FAILED" },
        chosen.len() - failures.len(),
        failures.len(),
        left.len(),
        start.elapsed().as_secs_f64()
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}
