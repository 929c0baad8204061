//! A schedule as people and programs read it: a table of transfers, JSON.

use super::info::Info;
use super::options::{Backend, OptionName, Options};
use super::schedule::{PeerTransfers, Schedule, Transfer};
use crate::geometry::{LoopNest, Placement};
use serde::Serialize;
use std::fmt::{self, Write};

/// How [`describe`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table for people.
    Text,
    /// The same facts for programs; field names do not change, new ones may come.
    Json,
}

/// What the plan does not know of itself: who moves the data, and in a few words how.
#[derive(Clone, Copy, Debug)]
pub struct Movement<'a> {
    /// Never [`Backend::Auto`].
    pub backend: Backend,
    /// How the data moves.
    pub methods: &'a str,
}

/// Everything about a schedule.
pub fn describe(schedule: &Schedule, movement: Movement<'_>, format: Format) -> String {
    match format {
        Format::Text => format!("{}", Table { schedule, movement }),
        Format::Json => {
            let report = json_report(schedule, movement);
            serde_json::to_string_pretty(&report).expect("plain structs of numbers and texts always become JSON")
        }
    }
}

/// Bytes of the output that nobody holds.
fn bytes_untouched(schedule: &Schedule) -> u64 {
    let filled = schedule.info.bytes_kept + schedule.info.bytes_received;
    schedule.request.output.bytes() as u64 - filled
}

#[derive(Serialize)]
struct JsonReport<'a> {
    info: &'a Info,
    input: JsonPlacement<'a>,
    output: JsonPlacement<'a>,
    bytes_untouched: u64,
    options: &'a Options,
    backend: Backend,
    methods: &'a str,
    staging: Option<Walk>,
    keep: Vec<JsonTransfer<'a>>,
    peers: Vec<JsonPeer<'a>>,
}

#[derive(Serialize)]
struct JsonPlacement<'a> {
    lower: &'a [i64],
    upper: &'a [i64],
    strides: &'a [i64],
    bytes: usize,
}

#[derive(Serialize)]
struct JsonTransfer<'a> {
    lower: &'a [i64],
    upper: &'a [i64],
    bytes: u64,
    #[serde(flatten)]
    walk: Walk,
}

#[derive(Serialize)]
struct JsonPeer<'a> {
    rank: usize,
    receive: Vec<JsonTransfer<'a>>,
    send: Vec<JsonTransfer<'a>>,
}

fn json_report<'a>(schedule: &'a Schedule, movement: Movement<'a>) -> JsonReport<'a> {
    let element_size = schedule.info.element_size;
    let placement = |placement: &'a Placement| JsonPlacement {
        lower: placement.index_box().lower(),
        upper: placement.index_box().upper(),
        strides: strides(placement),
        bytes: placement.bytes(),
    };
    let peer = |peer: &'a PeerTransfers| JsonPeer {
        rank: peer.rank,
        receive: json_transfers(&peer.receive, element_size),
        send: json_transfers(&peer.send, element_size),
    };
    JsonReport {
        info: &schedule.info,
        input: placement(&schedule.request.input),
        output: placement(&schedule.request.output),
        bytes_untouched: bytes_untouched(schedule),
        options: &schedule.options,
        backend: movement.backend,
        methods: movement.methods,
        staging: schedule.staging.as_ref().map(|nest| Walk::new(nest, element_size)),
        keep: json_transfers(&schedule.keep, element_size),
        peers: schedule.peers.iter().map(peer).collect(),
    }
}

fn json_transfers(transfers: &[Transfer], element_size: usize) -> Vec<JsonTransfer<'_>> {
    fn json(transfer: &Transfer, element_size: usize) -> JsonTransfer<'_> {
        JsonTransfer {
            lower: transfer.index_box.lower(),
            upper: transfer.index_box.upper(),
            bytes: transfer.bytes(),
            walk: Walk::new(&transfer.nest, element_size),
        }
    }
    transfers.iter().map(|transfer| json(transfer, element_size)).collect()
}

/// The strides of the dimensions that there are.
fn strides(placement: &Placement) -> &[i64] {
    &placement.layout().strides()[..placement.index_box().ndims()]
}

/// How a copy walks memory.
#[derive(Serialize)]
struct Walk {
    runs: usize,
    run_bytes: usize,
    /// Source and destination run along different dimensions.
    transposed: bool,
}

impl Walk {
    fn new(nest: &LoopNest, element_size: usize) -> Walk {
        let source_runs_elsewhere = nest.source_fastest().is_some_and(|fastest| fastest + 1 != nest.ndims);
        let transposed = nest.run_bytes == element_size && source_runs_elsewhere;
        Walk { runs: nest.runs(), run_bytes: nest.run_bytes, transposed }
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.runs == 1 { "" } else { "s" };
        let transposed = if self.transposed { ", transposed" } else { "" };
        write!(f, "{} run{plural} of {}{transposed}", self.runs, self.run_bytes)
    }
}

/// The report for people.
struct Table<'a> {
    schedule: &'a Schedule,
    movement: Movement<'a>,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { schedule, movement } = self;
        let (info, request) = (&schedule.info, &schedule.request);
        writeln!(f, "boxwise plan of rank {} of {}", info.rank, info.size)?;
        let plural = if info.element_size == 1 { "" } else { "s" };
        writeln!(f, "  array      {}-D, elements of {} byte{plural}", info.ndims, info.element_size)?;
        for (name, placement) in [("input", &request.input), ("output", &request.output)] {
            let bytes = Bytes(placement.bytes() as u64);
            writeln!(f, "  {name:<9}  {}, strides {:?}, {bytes}", placement.index_box(), strides(placement))?;
        }
        writeln!(f, "  options    {}", option_list(&schedule.options))?;
        writeln!(f, "  backend    {}", format!("{:?}", movement.backend).to_lowercase())?;
        writeln!(f, "  methods    {}", movement.methods)?;
        let workspace = Bytes(info.workspace_bytes);
        match &schedule.staging {
            Some(nest) => {
                let walk = Walk::new(nest, info.element_size);
                writeln!(f, "  workspace  {workspace}, the input is copied there first in {walk}")?;
            }
            None if info.workspace_bytes > 0 => writeln!(f, "  workspace  {workspace}")?,
            None => writeln!(f, "  workspace  none")?,
        }
        let share = 100.0 * info.bytes_kept as f64 / request.output.bytes().max(1) as f64;
        writeln!(f, "  kept       {}, {share:.1} % of the output", Bytes(info.bytes_kept))?;
        writeln!(f, "  received   {} from {}", Bytes(info.bytes_received), Ranks(info.peers_received_from))?;
        writeln!(f, "  sent       {} to {}", Bytes(info.bytes_sent), Ranks(info.peers_sent_to))?;
        let untouched = bytes_untouched(schedule);
        if untouched > 0 {
            writeln!(f, "  untouched  {} of the output, held by no rank", Bytes(untouched))?;
        }
        self.write_transfers(f)
    }
}

impl Table<'_> {
    fn write_transfers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schedule = self.schedule;
        let line = |what: &str, rank: usize, transfer: &Transfer| {
            let walk = Walk::new(&transfer.nest, schedule.info.element_size);
            let bytes = transfer.bytes();
            [what.into(), format!("{rank}"), format!("{bytes}"), format!("{walk}"), format!("{}", transfer.index_box)]
        };
        let mut lines = vec![["", "rank", "bytes", "copied in", "box"].map(String::from)];
        lines.extend(schedule.keep.iter().map(|transfer| line("keep", schedule.rank, transfer)));
        for peer in &schedule.peers {
            lines.extend(peer.receive.iter().map(|transfer| line("receive", peer.rank, transfer)));
            lines.extend(peer.send.iter().map(|transfer| line("send", peer.rank, transfer)));
        }
        if lines.len() == 1 {
            return writeln!(f, "\n  nothing to keep, receive or send");
        }
        let width = |column: usize| lines.iter().map(|columns| columns[column].len()).max().unwrap_or(0);
        let [what, rank, bytes, runs] = [0, 1, 2, 3].map(width);
        f.write_char('\n')?;
        for [a, b, c, d, e] in &lines {
            writeln!(f, "  {a:<what$}  {b:>rank$}  {c:>bytes$}  {d:<runs$}  {e}")?;
        }
        Ok(())
    }
}

/// Every option by the name that C programs know, without the prefix.
fn option_list(options: &Options) -> String {
    let values = OptionName::ALL.into_iter().zip(options.values().0).map(|(name, value)| {
        let short = name.c_name().trim_start_matches("BOXWISE_OPTION_").to_lowercase();
        match name {
            OptionName::Backend => format!("{short} {:?}", options.backend).to_lowercase(),
            OptionName::ExitSync => format!("{short} {:?}", options.exit_sync).to_lowercase(),
            _ => format!("{short} {value}"),
        }
    });
    values.collect::<Vec<_>>().join(", ")
}

/// A number of ranks.
struct Ranks(usize);

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rank{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// Bytes, exact and, where that is hard to read, rounded.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)?;
        let power = (1..=6).rev().find(|power| self.0 >> (10 * power) > 0);
        power.map_or(Ok(()), |power| {
            let rounded = self.0 as f64 / (1u64 << (10 * power)) as f64;
            write!(f, " ({rounded:.2} {}iB)", ["", "K", "M", "G", "T", "P", "E"][power])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{grid, table_between, table_of, with_options};
    use super::*;
    use crate::geometry::IndexBox;
    use serde_json::{Value, json};

    fn on_host(methods: &str) -> Movement<'_> {
        Movement { backend: Backend::Host, methods }
    }

    fn rows_to_columns() -> Schedule {
        let shape = [6, 1024];
        Schedule::build(&table_between(&grid(&shape, &[3, 1]), &grid(&shape, &[1, 3])), 1)
    }

    #[test]
    fn text_is_a_table() {
        let expected = "\
boxwise plan of rank 1 of 3
  array      2-D, elements of 8 bytes
  input      [2, 4) x [0, 1024), strides [1024, 1], 16384 bytes (16.00 KiB)
  output     [0, 6) x [342, 683), strides [341, 1], 16368 bytes (15.98 KiB)
  options    backend auto, in_place 0, allow_replicas 0, allow_uncovered 0, entry_sync 1, exit_sync input, threads 1, timeout_ms 0
  backend    host
  methods    direct 2
  workspace  none
  kept       5456 bytes (5.33 KiB), 33.3 % of the output
  received   10912 bytes (10.66 KiB) from 2 ranks
  sent       10928 bytes (10.67 KiB) to 2 ranks

           rank  bytes  copied in       box
  keep        1   5456  2 runs of 2728  [2, 4) x [342, 683)
  receive     2   5456  2 runs of 2728  [4, 6) x [342, 683)
  send        2   5456  2 runs of 2728  [2, 4) x [683, 1024)
  receive     0   5456  2 runs of 2728  [0, 2) x [342, 683)
  send        0   5472  2 runs of 2736  [2, 4) x [0, 342)
";
        assert_eq!(describe(&rows_to_columns(), on_host("direct 2"), Format::Text), expected);
    }

    #[test]
    fn text_tells_staging_transposition_and_what_stays_untouched() {
        let mut table = table_of(&[(&[0, 0], &[2, 3], &[0, 0], &[4, 3])]);
        let request = table[0].description.as_mut().unwrap();
        request.input = Placement::input(*request.input.index_box(), Some(&[1, 2]), 8).unwrap();
        let options = Options { in_place: true, allow_uncovered: true, ..Options::default() };
        let text = describe(&Schedule::build(&with_options(table, options), 0), on_host("direct"), Format::Text);
        for line in [
            "workspace  48 bytes, the input is copied there first in 1 run of 48\n",
            "kept       48 bytes, 50.0 % of the output\n",
            "received   0 bytes from 0 ranks\n",
            "untouched  48 bytes of the output, held by no rank\n",
            "6 runs of 8, transposed",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let empty = Schedule::build(&table_of(&[(&[0], &[0], &[1], &[1])]), 0);
        let text = describe(&empty, on_host("none"), Format::Text);
        assert!(text.ends_with("\n  nothing to keep, receive or send\n"), "{text}");
    }

    #[test]
    fn workspace_of_a_backend_is_told() {
        let mut schedule = rows_to_columns();
        schedule.set_workspace_bytes(2048);
        let movement = Movement { backend: Backend::Nvshmem, methods: "NVSHMEM puts" };
        let text = describe(&schedule, movement, Format::Text);
        assert!(text.contains("\n  backend    nvshmem\n"), "{text}");
        assert!(text.contains("\n  workspace  2048 bytes (2.00 KiB)\n"), "{text}");
        let report: Value = serde_json::from_str(&describe(&schedule, movement, Format::Json)).unwrap();
        assert_eq!(report["backend"], "nvshmem");
        assert_eq!(report["info"]["workspace_bytes"], 2048);
    }

    #[test]
    fn json_holds_the_same_facts() {
        let schedule = rows_to_columns();
        let report: Value = serde_json::from_str(&describe(&schedule, on_host("direct 2"), Format::Json)).unwrap();
        let transfer = |lower: [i64; 2], upper: [i64; 2], run_bytes: i64| {
            json!([{ "lower": lower, "upper": upper, "bytes": 2 * run_bytes, "runs": 2, "run_bytes": run_bytes,
                     "transposed": false }])
        };
        let expected = json!({
            "info": {
                "ndims": 2, "element_size": 8, "rank": 1, "size": 3, "bytes_kept": 5456, "bytes_sent": 10928,
                "bytes_received": 10912, "peers_sent_to": 2, "peers_received_from": 2, "copies": 3,
                "workspace_bytes": 0,
            },
            "input": { "lower": [2, 0], "upper": [4, 1024], "strides": [1024, 1], "bytes": 16384 },
            "output": { "lower": [0, 342], "upper": [6, 683], "strides": [341, 1], "bytes": 16368 },
            "bytes_untouched": 0,
            "options": {
                "backend": "auto", "in_place": false, "allow_replicas": false, "allow_uncovered": false,
                "entry_sync": true, "exit_sync": "input", "threads": 1, "timeout_ms": 0,
            },
            "backend": "host",
            "methods": "direct 2",
            "staging": null,
            "keep": transfer([2, 342], [4, 683], 2728),
            "peers": [
                { "rank": 2, "receive": transfer([4, 342], [6, 683], 2728), "send": transfer([2, 683], [4, 1024], 2728) },
                { "rank": 0, "receive": transfer([0, 342], [2, 683], 2728), "send": transfer([2, 0], [4, 342], 2736) },
            ],
        });
        assert_eq!(report, expected);
    }

    #[test]
    fn only_copies_element_by_element_are_transposed() {
        let index_box = IndexBox::new(&[0, 0, 0], &[2, 3, 4]).unwrap();
        let target = Placement::output(index_box, None, 8).unwrap();
        for (strides, runs, transposed) in [([12, 4, 1], 1, false), ([4, 8, 1], 6, false), ([1, 2, 6], 24, true)] {
            let source = Placement::input(index_box, Some(&strides), 8).unwrap();
            let walk = Walk::new(&LoopNest::between(&index_box, &source, &target), 8);
            assert_eq!((walk.runs, walk.transposed), (runs, transposed), "{strides:?}");
        }
    }

    #[test]
    fn bytes_are_exact_and_readable() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1 << 10, "1024 bytes (1.00 KiB)"),
            (3 << 30, "3221225472 bytes (3.00 GiB)"),
            (u64::MAX, "18446744073709551615 bytes (16.00 EiB)"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
