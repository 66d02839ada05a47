//! Functions by the words that people type.

use std::collections::HashMap;

use crate::{
    Bdf, Fabric, Function, FunctionId, FunctionKind, Namespace, NvmeController, block_name,
};

/// Folders of device files.
const FOLDERS: [&str; 3] = ["/dev/infiniband/", "/dev/dri/", "/dev/"];
/// The word for a GPU, before its number or address.
const GPU: &str = "gpu:";

impl Fabric {
    /// Finds a function by a word that people type: name, PCI address, NVMe controller name or
    /// serial, or the name of one of its namespaces or partitions (`nvme2n1p1`), or of the
    /// passthrough node of a namespace (`ng2n1`).
    pub fn find(&self, text: &str) -> Option<FunctionId> {
        let address = text.parse::<Bdf>().ok();
        let is_it = |function: &Function| {
            function.name == text
                || (address.is_some() && function.address == address)
                || function.nvme.as_ref().is_some_and(|nvme| is_called(nvme, text))
        };
        self.iter().find(|(_, function)| is_it(function)).map(|(id, _)| id)
    }

    /// Finds any PCI function: as [`Fabric::find`], or by [`Fabric::device_word`], a name of the kernel
    /// (`mlx5_0`, `eth0`, `card0`) or its file below `/dev`; an address may leave out the domain.
    pub fn find_device(&self, text: &str) -> Option<FunctionId> {
        if let Some(gpu) = text.strip_prefix(GPU) {
            return self.find_gpu(gpu);
        }
        let bare = FOLDERS.iter().find_map(|folder| text.strip_prefix(folder)).unwrap_or(text);
        self.by_name(bare)
    }

    /// Finds a GPU by its number, or by a name or an address.
    pub fn find_gpu(&self, name: &str) -> Option<FunctionId> {
        let numbered = name.parse().ok().and_then(|number: usize| self.gpus().get(number).copied());
        let is_gpu = |id: &FunctionId| self.function(*id).kind == FunctionKind::Gpu;
        numbered.or_else(|| self.by_name(name).filter(is_gpu))
    }

    fn by_name(&self, name: &str) -> Option<FunctionId> {
        let has_kernel_name =
            |function: &Function| function.kernel_names.iter().any(|other| other == name);
        self.find(name)
            .or_else(|| self.find(&format!("0000:{name}")).filter(|_| name.contains('.')))
            .or_else(|| self.iter().find(|(_, one)| has_kernel_name(one)).map(|(id, _)| id))
    }

    /// The word for a function in commands: `gpu:N`, else `gpu:ADDRESS` for a GPU that has no number; the
    /// kernel's first name of a NIC; its own name otherwise.
    pub fn device_word(&self, id: FunctionId) -> String {
        self.word(id, self.gpu_number(id))
    }

    /// [`Self::device_word`] of every function, in their order: GPUs are counted once.
    pub fn device_words(&self) -> Vec<String> {
        let numbers: HashMap<FunctionId, usize> =
            self.gpus().into_iter().enumerate().map(|(number, gpu)| (gpu, number)).collect();
        self.iter().map(|(id, _)| self.word(id, numbers.get(&id).copied())).collect()
    }

    fn word(&self, id: FunctionId, gpu_number: Option<usize>) -> String {
        let function = self.function(id);
        match function.kind {
            FunctionKind::Gpu => match (gpu_number, function.address) {
                (Some(number), _) => format!("{GPU}{number}"),
                (None, Some(address)) => format!("{GPU}{address}"),
                (None, None) => function.name.clone(),
            },
            FunctionKind::Nic => function.kernel_names.last().unwrap_or(&function.name).clone(),
            _ => function.name.clone(),
        }
    }
}

/// Returns whether `text` is a name of a drive.
fn is_called(drive: &NvmeController, text: &str) -> bool {
    let of_node = block_name(text);
    let of_namespace = |namespace: &Namespace| {
        namespace.name.as_deref() == Some(text)
            || (of_node.is_some() && namespace.name == of_node)
            || namespace.partitions.iter().any(|partition| partition.name == text)
    };
    drive.name.as_deref() == Some(text)
        || drive.serial.as_deref() == Some(text)
        || drive.namespaces.iter().any(of_namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Fabric {
        let text = peerlane_testing::machine_text(
            "0000:41:00.0 gpu @ 10de:\n0000:42:00.0 gpu @ 8086: kernel_names = ['card1']\n\
             0000:43:00.0 nic @ kernel_names = ['eth0', 'mlx5_0']\nnvme2 nvme @0000:44:00.0",
        );
        Fabric::from_toml(&text).expect("a machine")
    }

    #[test]
    fn functions_are_found_by_every_name() {
        let machine = machine();
        for (word, expected) in [
            ("gpu:0", Some(0)),
            ("gpu:0000:42:00.0", Some(1)),
            ("gpu:1", None),
            ("gpu:0000:43:00.0", None),
            ("card1", Some(1)),
            ("/dev/dri/card1", Some(1)),
            ("mlx5_0", Some(2)),
            ("eth0", Some(2)),
            ("43:00.0", Some(2)),
            ("nvme2", Some(3)),
            ("eth1", None),
        ] {
            assert_eq!(machine.find_device(word), expected.map(FunctionId), "{word}");
        }
    }

    #[test]
    fn device_words_find_their_function() {
        let machine = machine();
        let words: Vec<String> = machine.device_words();
        assert_eq!(words, ["gpu:0", "gpu:0000:42:00.0", "mlx5_0", "nvme2"]);
        for (id, word) in machine.iter().map(|(id, _)| id).zip(&words) {
            assert_eq!(machine.find_device(word), Some(id));
        }
    }
}
