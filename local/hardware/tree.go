package hardware

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tree is the folder below which all files are read; empty stands for /.
type tree string

func (t tree) path(p string) string { return filepath.Join("/", string(t), p) }

// real tells whether the tree is that of this machine.
func (t tree) real() bool { return t.path("/") == "/" }

// maxText is more than any of the files has that are read.
const maxText = 1 << 20

// text is the content of a file, without space around it.
func (t tree) text(p string) (string, error) {
	f, err := os.Open(t.path(p))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	return strings.TrimSpace(string(b)), err
}

// word is the content of a file, or nothing where it cannot be read.
func (t tree) word(p string) string {
	s, err := t.text(p)
	if err != nil {
		return ""
	}
	return s
}

// number is the number in a file.
func (t tree) number(p string) (int64, bool) {
	n, err := strconv.ParseInt(t.word(p), 0, 64)
	return n, err == nil
}

func (t tree) exists(p string) bool {
	_, err := os.Stat(t.path(p))
	return err == nil
}

// list is the names in a folder that begin with a prefix, those with numbers
// behind it in order of the numbers.
func (t tree) list(dir, prefix string) []string {
	entries, err := os.ReadDir(t.path(dir))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		x, errA := strconv.Atoi(a[len(prefix):])
		y, errB := strconv.Atoi(b[len(prefix):])
		if errA != nil || errB != nil {
			return strings.Compare(a, b)
		}
		return x - y
	})
	return names
}

// fields reads lines of keys and values, with a separator between them.
func (t tree) fields(p, separator string) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(t.word(p), "\n") {
		if key, value, ok := strings.Cut(line, separator); ok {
			out[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return out
}

func (t tree) hostname() string {
	if name := t.word("/proc/sys/kernel/hostname"); name != "" {
		return name
	}
	if name, err := os.Hostname(); err == nil && t.real() {
		return name
	}
	return "localhost"
}

// numa is the NUMA node of a PCI device; -1 when it is not known.
func (t tree) numa(pci string) int {
	if n, ok := t.number("/sys/bus/pci/devices/" + pci + "/numa_node"); ok && n >= 0 && pci != "" {
		return int(n)
	}
	return -1
}

// maxCPU bounds the numbers of CPUs in a list.
const maxCPU = 1 << 16

// cpuList reads a list of numbers as the kernel writes it: 0-3,8.
func cpuList(s string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 0 || b < a || b > maxCPU {
			continue
		}
		for n := a; n <= b; n++ {
			out = append(out, n)
		}
	}
	return out
}
