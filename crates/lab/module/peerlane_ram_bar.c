// SPDX-License-Identifier: GPL-2.0
/*
 * Publishes a RAM-backed BAR as peer-to-peer memory, for the lab's guests only.
 *
 * QEMU's ivshmem-plain has shared memory of the host as its BAR 2 and no driver in the kernel. This one
 * hands that BAR to P2PDMA, so that it stands in for the memory of an FPGA card or a GPU. It runs in
 * virtual machines that are thrown away; no machine with other devices needs it.
 *
 * This file alone is under the GNU General Public License, version 2, as the kernel's interface that
 * it uses asks for; it is built apart and linked with nothing of the rest.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pci-p2pdma.h>

/* docs/specs/ivshmem-spec.rst of QEMU: PCI device 1af4:1110, memory in BAR 2. */
#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110
#define IVSHMEM_MEMORY 2

static int ram_bar_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int status = pcim_enable_device(pdev);

	if (status)
		return status;
	pci_set_master(pdev);
	/* Size 0 stands for the whole BAR. */
	status = pci_p2pdma_add_resource(pdev, IVSHMEM_MEMORY, 0, 0);
	if (status)
		return status;
	pci_p2pmem_publish(pdev, true);
	return 0;
}

static const struct pci_device_id ram_bar_ids[] = {
	{ PCI_DEVICE(IVSHMEM_VENDOR, IVSHMEM_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, ram_bar_ids);

static struct pci_driver ram_bar_driver = {
	.name = "peerlane_ram_bar",
	.id_table = ram_bar_ids,
	.probe = ram_bar_probe,
};
module_pci_driver(ram_bar_driver);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("RAM-backed BAR as peer-to-peer memory, for virtual machines");
