//! Text of `--version`: the release, the commit, and libraries that are opened at run time.

/// Commit and its date, which `tools/package` gives; a build by hand has none.
const COMMIT: &str = match option_env!("PEERLANE_COMMIT") {
    Some(commit) => commit,
    None => "commit not recorded",
};

const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

/// Returns the text behind the program's name.
pub(crate) fn long() -> String {
    format!(
        "{} ({COMMIT}, {PROFILE} build, {})\n\
         opened at run time where installed: libcuda, libcufile, libnvrtc, libxrt_coreutil, libblkid",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
    )
}
