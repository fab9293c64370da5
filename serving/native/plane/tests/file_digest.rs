//! Digests of files, also when their reading is interrupted.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_plane::file_digest::FileDigest;

const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// From `head -c 1000000 /dev/zero | sha256sum`.
const OF_A_MILLION_ZEROS: &str = "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025";

fn file(name: &str, size: usize) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-digest-{}-{name}", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(&vec![0; size]).unwrap();
    path
}

#[test]
fn known_digests() {
    for (name, size, digest) in [("empty", 0, OF_NOTHING), ("zeros", 1_000_000, OF_A_MILLION_ZEROS)] {
        let path = file(name, size);
        let mut reading = FileDigest::open(&path).unwrap();
        assert!(reading.read_until(None).unwrap());
        assert_eq!(reading.finish(), (size as u64, digest.to_string()));
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn reading_stops_at_its_moment_and_goes_on_in_another_thread() {
    let path = file("continued", 1_000_000);
    let mut reading = FileDigest::open(&path).unwrap();
    assert!(!reading.read_until(Some(Instant::now())).unwrap());
    let ended = std::thread::spawn(move || {
        assert!(reading.read_until(Some(Instant::now() + Duration::from_secs(600))).unwrap());
        reading.finish()
    });
    assert_eq!(ended.join().unwrap(), (1_000_000, OF_A_MILLION_ZEROS.to_string()));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_cannot_be_read_is_an_error() {
    assert!(FileDigest::open(&std::env::temp_dir().join("tidegate-no-such-file")).is_err());
    let mut folder = FileDigest::open(&std::env::temp_dir()).unwrap();
    assert!(folder.read_until(None).is_err());
}
