package smi

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
)

// Topology is how the GPUs of a machine are linked, by their numbers in nvidia-smi.
type Topology struct {
	Links [][]Link
	NUMA  []int // of each GPU; -1: not told
}

// Link is a word of the matrix: how two GPUs are linked.
type Link struct {
	Word    string // as nvidia-smi writes it: NV18, PIX, SYS
	Class   cluster.LinkClass
	NVLinks int // of an NVLink
}

// classes are the words of the matrix. NV and a number stand for NVLinks.
var classes = map[string]cluster.LinkClass{
	"X":   cluster.SameDevice,
	"PSB": cluster.PCIeSwitch, "PIX": cluster.PCIeSwitch, "PXB": cluster.PCIeSwitch, // no host bridge in between
	"PHB": cluster.Socket, "NODE": cluster.Socket,
	"SYS": cluster.CrossSocket, "SOC": cluster.CrossSocket, // of drivers before 390
}

// escapes are what nvidia-smi underlines the first line with, even into a file.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// gpuName is how GPUs are called in the matrix.
var gpuName = regexp.MustCompile(`^GPU([0-9]+)$`)

// ParseTopology reads the matrix of nvidia-smi topo -m. Rows and columns of network
// cards are left out. It fails on text without a matrix, and on a row or word that is
// not understood, with the row.
func ParseTopology(text string) (*Topology, error) {
	lines := strings.Split(escapes.ReplaceAllString(text, ""), "\n")
	t := &Topology{}
	gpus, numa := 0, -1 // columns in front, and the one of the NUMA node
	for _, line := range lines {
		words := columns(line)
		switch {
		case len(words) > 0 && gpus == 0 && words[0] == "GPU0":
			gpus, numa = heading(words)
		case gpus > 0 && len(t.Links) < gpus && len(words) > 0 && words[0] == fmt.Sprintf("GPU%d", len(t.Links)):
			row, err := links(words, gpus)
			if err != nil {
				return nil, fmt.Errorf("%s topo -m: %w", Program, err)
			}
			t.Links = append(t.Links, row)
			t.NUMA = append(t.NUMA, node(words, numa))
		}
	}
	if gpus == 0 || len(t.Links) != gpus {
		return nil, fmt.Errorf("%s topo -m: there is no matrix, or it lacks rows: %d of %d GPUs", Program, len(t.Links), gpus)
	}
	return t, nil
}

// columns are the cells of a line. Cells are parted by tabs, or in text that was
// passed on by several spaces; an empty cell between two tabs is left out.
func columns(line string) []string {
	var out []string
	for _, cell := range regexp.MustCompile(`\t| {2,}`).Split(line, -1) {
		if cell = strings.TrimSpace(cell); cell != "" {
			out = append(out, cell)
		}
	}
	return out
}

// heading counts the GPUs of the first line, and finds the column of the NUMA node:
// its distance from the first GPU; -1: there is none.
func heading(words []string) (gpus, numa int) {
	numa = -1
	for i, w := range words {
		if gpuName.MatchString(w) {
			gpus++
		}
		if w == "NUMA Affinity" {
			numa = i
		}
	}
	return gpus, numa
}

// links reads the words of a row that stand for GPUs.
func links(words []string, gpus int) ([]Link, error) {
	if len(words) < gpus+1 {
		return nil, fmt.Errorf("the row of %s has %d words; there are %d GPUs", words[0], len(words)-1, gpus)
	}
	row := make([]Link, gpus)
	for i, w := range words[1 : gpus+1] {
		class, known := classes[w]
		n, err := strconv.Atoi(strings.TrimPrefix(w, "NV"))
		switch {
		case known:
			row[i] = Link{Word: w, Class: class}
		case strings.HasPrefix(w, "NV") && err == nil && n > 0:
			row[i] = Link{w, cluster.NVLink, n}
		default:
			return nil, fmt.Errorf("the row of %s has the unknown word %q", words[0], w)
		}
	}
	return row, nil
}

// node is the NUMA node of a row; -1: it is not told. nvidia-smi tells several for a
// GPU that is as near to each.
func node(words []string, at int) int {
	if at < 0 || at+1 >= len(words) {
		return -1
	}
	n, err := strconv.Atoi(words[at+1])
	if err != nil || n < 0 {
		return -1
	}
	return n
}
