package clusterspec

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// describeLinks draws how the GPUs of nodes are linked, as a matrix for each layout, in the
// words of nvidia-smi topo -m.
func describeLinks(w io.Writer, c *cluster.Cluster) {
	type layout struct {
		links *cluster.Links
		first string
		nodes int
	}
	var all []*layout
	for id := range cluster.NodeID(c.Nodes()) {
		n := c.Node(id)
		if n.Links == nil || n.Links.Devices() < 2 {
			continue
		}
		at := slices.IndexFunc(all, func(l *layout) bool { return l.links.Equal(n.Links) })
		if at < 0 {
			all = append(all, &layout{links: n.Links, first: n.Name})
			at = len(all) - 1
		}
		all[at].nodes++
	}
	for _, l := range all {
		of := l.first
		if l.nodes > 1 {
			of = unit.Count(l.nodes, "node") + " such as " + l.first
		}
		if name := linksOf(l.links).Preset; name != "" {
			of += ": " + name
		}
		fmt.Fprintf(w, "\nlinks of %s\n", of)
		drawLinks(w, l.links)
	}
}

// drawLinks writes the matrix and what its words mean.
func drawLinks(w io.Writer, l *cluster.Links) {
	rows := make([][]string, l.Devices()+1)
	var words tally[string]
	speeds := map[string][]float64{}
	for i := range rows {
		rows[i] = make([]string, l.Devices()+1)
		for j := range rows[i] {
			switch {
			case i == 0 && j == 0:
			case i == 0 || j == 0:
				rows[i][j] = fmt.Sprintf("GPU%d", max(i, j)-1)
			case i == j:
				rows[i][j] = "X"
			default:
				link := l.Between(i-1, j-1)
				rows[i][j] = wordOf(link)
				words.add(rows[i][j], 1)
				speeds[rows[i][j]] = append(speeds[rows[i][j]], link.GBps)
			}
		}
	}
	for _, row := range rows {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	for _, word := range words.order {
		least, most := slices.Min(speeds[word]), slices.Max(speeds[word])
		speed := short(most)
		if least != most {
			speed = short(least) + " to " + speed
		}
		fmt.Fprintf(w, "%s\t%s GB/s each way, %s\n", word, speed, meaningOf(word))
	}
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// wordOf is a link in a word of nvidia-smi.
func wordOf(l cluster.Link) string {
	switch l.Class {
	case cluster.NVLink:
		if l.Count > 0 {
			return fmt.Sprintf("NV%d", l.Count)
		}
		return "NV"
	case cluster.PCIeSwitch:
		return "PIX"
	case cluster.Socket:
		return "NODE"
	case cluster.CrossSocket:
		return "SYS"
	}
	return "SAME"
}

// meaningOf says what a word of the matrix means.
func meaningOf(word string) string {
	switch word {
	case "PIX":
		return "through one PCIe switch"
	case "NODE":
		return "through the root complex of one socket"
	case "SYS":
		return "between sockets"
	case "SAME":
		return "one device"
	case "NV":
		return "NVLinks"
	case "NV1":
		return "1 NVLink"
	}
	return strings.TrimPrefix(word, "NV") + " NVLinks"
}
