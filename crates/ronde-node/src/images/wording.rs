//! What users and their tools read about images, in the kubelet's words.

use std::time::Duration;

use super::policy::WhyHost;

/// The reason of a container whose image could not be pulled.
pub const PULL_FAILED: &str = "ErrImagePull";
/// The reason of a container whose image is not pulled again yet.
pub const BACKING_OFF: &str = "ImagePullBackOff";
/// Why a pull did not end.
pub(super) const INTERRUPTED: &str = "the pull was interrupted";

pub fn pulling(image: &str) -> String {
    format!("Pulling image \"{image}\"")
}

pub fn pulled(image: &str, took: Duration, waited: Duration, bytes: u64) -> String {
    let (took, waited) = (shown(took), shown(waited));
    format!("Successfully pulled image \"{image}\" in {took} ({waited} including waiting). Image size: {bytes} bytes.")
}

pub fn present(image: &str) -> String {
    format!("Container image \"{image}\" already present on machine")
}

pub fn back_off(image: &str) -> String {
    format!("Back-off pulling image \"{image}\"")
}

pub fn missing_secrets(names: &[String]) -> String {
    let names = names.join(", ");
    format!("Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed.")
}

pub fn copied(image: &str) -> String {
    format!("Image \"{image}\" is copied for the container: this machine has no overlay file system")
}

pub fn not_pulled(image: &str, why: WhyHost) -> String {
    format!("Image \"{image}\" is not pulled ({why}): the container sees this machine's own files")
}

/// Writes a time as Go does, to the millisecond: `981ms`, `1.5s`, `2m0.25s`.
fn shown(time: Duration) -> String {
    let (seconds, millis) = (time.as_secs(), time.subsec_millis());
    if seconds == 0 {
        return if millis == 0 { "0s".to_owned() } else { format!("{millis}ms") };
    }
    let fraction = format!(".{millis:03}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}{fraction}s"),
        (0, _) => format!("{minutes}m{rest}{fraction}s"),
        _ => format!("{hours}h{minutes}m{rest}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_does() {
        for (millis, expected) in [
            (0, "0s"),
            (981, "981ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (1001, "1.001s"),
            (120_250, "2m0.25s"),
            (3_600_000, "1h0m0s"),
        ] {
            assert_eq!(shown(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn what_is_told_is_what_tools_look_for() {
        let (took, waited) = (Duration::from_millis(1234), Duration::from_millis(2000));
        assert_eq!(
            pulled("a:1", took, waited, 5),
            "Successfully pulled image \"a:1\" in 1.234s (2s including waiting). Image size: 5 bytes."
        );
        assert_eq!(
            missing_secrets(&["a".to_owned(), "b".to_owned()]),
            "Unable to retrieve some image pull secrets (a, b); attempting to pull the image may not succeed."
        );
    }
}
