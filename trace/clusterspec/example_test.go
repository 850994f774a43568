package clusterspec_test

import (
	"fmt"
	"os"

	"github.com/norn-scheduler/norn/trace/clusterspec"
)

func ExampleParse() {
	s, err := clusterspec.Parse("2x8:V100/96c/720GiB+4x4:P100")
	if err != nil {
		fmt.Println(err)
		return
	}
	site, err := s.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := clusterspec.Describe(os.Stdout, site.Cluster); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 6 nodes, 32 GPUs
	//
	// nodes  GPUs      CPUs  memory
	// 4      4 x P100  -     -
	// 2      8 x V100  96    720GiB
	//
	// GPUs  type  memory  speed
	// 16    V100  -       1
	// 16    P100  -       1
}

func ExampleParse_mistake() {
	_, err := clusterspec.Parse("vcA=4x8,vcB=2y8")
	fmt.Println(err)
	// Output:
	// cluster "vcA=4x8,vcB=2y8": "2y8" is not understood: it is no number of nodes and GPUs, no preset and no file
	// write 16x8:V100 for 16 nodes of 8 GPUs, 16x8:V100/96c/720GiB with CPUs and memory of each node,
	// 2x8:V100+4x4:P100 for two kinds of nodes, vcA=4x8,vcB=2x8 for partitions, 64 or pool:2490 for GPUs in one pool,
	// 16x8:V100/dgx1 with the links of a machine that is known (norn cluster --links lists them),
	// n8g8 or g300 as published simulators do, the path of a file, or a preset: cassini, clos-2, clos-3, earth, helios-venus-lucid, lingjun, pai, pai-hetero, philly, philly-qssf, pollux, saturn, sia, synergy, uranus, venus
}

func ExampleParseYAML_mistake() {
	_, err := clusterspec.ParseYAML("lab.yaml", []byte("nodes:\n  - count: 4\n    gpu: 8xA100\n"))
	fmt.Println(err)
	// Output:
	// lab.yaml:3:5: a group of nodes has no key "gpu"; known are: at, count, cpus, foreign, gpus, health, labels, links, memory, name, nics, partition, place, pooled, power, slots, taints; did you mean gpus?
	//         gpu: 8xA100
}

// A description is written in its canonical form, and read again.
func ExampleSpec_YAML() {
	s, err := clusterspec.Parse("vision=4x8:A100,language=2x8:H100/2TiB")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(s.YAML()))
	// Output:
	// gpu-types:
	//   - name: A100
	//   - name: H100
	// partitions:
	//   - vision
	//   - language
	// nodes:
	//   - count: 4
	//     gpus: [{type: A100, count: 8}]
	//     partition: vision
	//   - count: 2
	//     gpus: [{type: H100, count: 8}]
	//     memory: 2TiB
	//     partition: language
}
