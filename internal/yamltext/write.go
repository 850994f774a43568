package yamltext

import (
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// notText are words that YAML does not read as text.
var notText = map[string]bool{"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true}

// Quote writes a name, in quotes unless it is plainly a word or a path. All its signs must
// be printable.
func Quote(s string) string {
	plain := s != "" && !notText[strings.ToLower(s)]
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '/'
		if !letter && (i == 0 || !(r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')) {
			plain = false
		}
	}
	if plain {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// FormatBytes writes an amount of memory so that it is read as the same number.
func FormatBytes(b unit.Bytes) string {
	for i, size := range []unit.Bytes{unit.TiB, unit.GiB, unit.MiB, unit.KiB} {
		if b >= size && b%size == 0 {
			return strconv.FormatInt(int64(b/size), 10) + [...]string{"TiB", "GiB", "MiB", "KiB"}[i]
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
