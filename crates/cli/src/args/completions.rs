//! `peerlane completions`.

use clap::Args;
use clap_complete::Shell;

/// Arguments of `peerlane completions`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  peerlane completions bash > ~/.local/share/bash-completion/completions/peerlane
  peerlane completions fish > ~/.config/fish/completions/peerlane.fish
  peerlane completions zsh > ~/.zfunc/_peerlane")]
pub(crate) struct CompletionsArgs {
    /// Shell to complete commands in
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
