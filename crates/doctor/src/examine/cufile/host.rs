//! Keys that send payload through host memory: always, instead of a direct way, or in part.

use super::{Audit, BY_1_14, CuFileEffect, CufileNote, EARLY, FALLBACKS, MIRRORS, Since};

/// First and last version with the former name of POSIX mode.
const FIRST_NAME: Since = FALLBACKS;
const LATER_NAME: Since = MIRRORS;

impl Audit<'_> {
    pub(super) fn host_memory(&self) -> Vec<CufileNote> {
        let always = [self.forced(), self.posix_mode(), self.former_posix_mode()];
        let instead = [self.compatibility(), self.by_other_name(), self.fallback(), self.holes()];
        let in_part = [self.unaligned(), self.threads()];
        let notes = always.into_iter().chain(instead).chain(in_part).flatten();
        notes.chain(self.small_requests()).collect()
    }

    fn forced(&self) -> Option<CufileNote> {
        self.flagged("properties.force_compat_mode", true, EARLY, || {
            let effect =
                CuFileEffect::new("every request goes through host memory", "set it to false");
            effect.forcing_host(true).ended_by(vec![("properties.force_compat_mode", false)])
        })
    }

    fn posix_mode(&self) -> Option<CufileNote> {
        self.flagged("properties.vanilla_posix_io_mode", true, LATER_NAME, || {
            let effect = CuFileEffect::new(
                "every request is read or written through host memory, without a look at the platform",
                "set it to false",
            );
            effect.forcing_host(true).ended_by(vec![("properties.vanilla_posix_io_mode", false)])
        })
    }

    /// The name of POSIX mode in 1.17 and 1.18.
    fn former_posix_mode(&self) -> Option<CufileNote> {
        self.flagged("properties.posix_io_mode", true, FIRST_NAME, || {
            let is_later = self.version.is_some_and(|version| version >= LATER_NAME.version);
            if is_later {
                let what = "cuFile from 1.19 on does not have the key, which is vanilla_posix_io_mode there";
                return CuFileEffect::new(what, "leave it out");
            }
            let effect = CuFileEffect::new(
                "every request is read or written through host memory (1.17 and 1.18; later versions call \
                 it vanilla_posix_io_mode)",
                "set it to false",
            );
            effect.forcing_host(true).ended_by(vec![("properties.posix_io_mode", false)])
        })
    }

    fn compatibility(&self) -> Option<CufileNote> {
        let key = "properties.allow_compat_mode";
        let advice = "set it to false to see an error instead of a detour; Peerlane switches it off for \
                      routes that must be direct";
        let effect = match self.found.flag(key) {
            Some(true) => CuFileEffect::new(
                "what cannot go directly goes through host memory, and the call does not say so",
                advice,
            ),
            Some(false) => CuFileEffect::new(
                "what cannot go directly is an error",
                "set it to true for programs that may take host memory",
            ),
            None if self.found.settings.contains_key(key) || self.found.problem.is_some() => {
                return None;
            }
            None => CuFileEffect::new(
                "whether host memory is used instead of a direct path is unknown: by default, says NVIDIA's \
                 guide, and not by default, says its gds-diag",
                advice,
            ),
        };
        Some(self.note(key, EARLY, effect))
    }

    fn by_other_name(&self) -> Option<CufileNote> {
        let key = "properties.use_compat_mode";
        self.found.settings.contains_key(key).then(|| {
            let effect = CuFileEffect::new(
                "gdscheck prints allow_compat_mode by this name; the published libraries have the other one \
                 only, and whether they read this one is unknown",
                "call it allow_compat_mode",
            );
            self.note(key, EARLY, effect)
        })
    }

    fn fallback(&self) -> Option<CufileNote> {
        self.flagged("properties.gds_fallback_io", true, FALLBACKS, || {
            CuFileEffect::new(
                "requests by RDMA that fail through nvidia-fs are repeated through host memory; what it does on \
                 local drives is unknown",
                "set it to false",
            )
        })
    }

    fn holes(&self) -> Option<CufileNote> {
        self.flagged("sparse.p2p_compat_enable", false, MIRRORS, || {
            CuFileEffect::new(
                "reads by P2PDMA that touch holes of ext4 and XFS are not taken through host memory; what they \
                 return is unknown",
                "leave it out, or make files without holes: `cp --sparse=never FILE NEW`",
            )
        })
    }

    fn unaligned(&self) -> Option<CufileNote> {
        self.flagged("fs.generic.posix_unaligned_writes", true, EARLY, || {
            CuFileEffect::new(
                "writes that are not aligned to 4 KiB go through host memory and the page cache",
                "set it to false, or align writes",
            )
        })
    }

    /// A condition of the library's own messages, of 1.14 and later.
    fn threads(&self) -> Option<CufileNote> {
        self.flagged("execution.parallel_io", false, EARLY, || {
            CuFileEffect::new(
                "requests on a stream cannot go by P2PDMA, which needs the library's threads for them",
                "set it to true",
            )
        })
    }

    fn small_requests(&self) -> Vec<CufileNote> {
        let systems = [("lustre", EARLY), ("beegfs", EARLY), ("scatefs", BY_1_14)];
        let note = |(system, since): (&str, Since)| {
            let key = format!("fs.{system}.posix_gds_min_kb");
            let most = self.found.number(&key).filter(|&most| most > 0)?;
            let effect = CuFileEffect::new(
                format!(
                    "requests of {most} KiB and less on {system} go through host memory, whatever \
                         allow_compat_mode is"
                ),
                "set it to 0",
            );
            Some(self.note(&key, since, effect))
        };
        systems.into_iter().filter_map(note).collect()
    }
}
