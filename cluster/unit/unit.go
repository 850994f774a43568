// Package unit holds the quantities that every part of Norn counts in, and
// their one way of being written and read.
//
// Nouns: Bytes (memory), Milli (thousandths of a GPU or of a CPU core). Time
// is a time.Duration since the start of the run, and is written in seconds.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is an amount of memory.
type Bytes int64

// Sizes of memory, powers of two.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// Milli is thousandths of a device or a core: 1000 is one whole GPU or one
// whole CPU core, 250 a quarter of one.
type Milli int64

// One is a whole device or core.
const One Milli = 1000

// Never is later than any event of any run.
const Never = time.Duration(math.MaxInt64)

var byteSuffixes = []struct {
	name string
	size float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"k", 1e3}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"B", 1},
}

// ParseBytes reads "16GiB", "512Mi", "1.5G" (binary, as Slurm and Kubernetes
// users expect of K, M, G and T), "2GB" (decimal) or a plain count of bytes.
func ParseBytes(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	factor := 1.0
	for _, suffix := range byteSuffixes {
		if rest, ok := strings.CutSuffix(text, suffix.name); ok {
			text, factor = strings.TrimSpace(rest), suffix.size
			break
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || math.IsNaN(v) || v*factor > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not an amount of memory (write 16GiB, 512MiB or a number of bytes)", s)
	}
	return Bytes(math.Round(v * factor)), nil
}

// String writes the amount with the largest binary unit that keeps it exact,
// or two decimals.
func (b Bytes) String() string {
	if b < 0 {
		return "-" + max(-b, -(b+1)).String() // the least number has no positive twin
	}
	units := []struct {
		name string
		size Bytes
	}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}
	for _, u := range units {
		if b >= u.size {
			if b%u.size == 0 {
				return strconv.FormatInt(int64(b/u.size), 10) + u.name
			}
			return strconv.FormatFloat(float64(b)/float64(u.size), 'f', 2, 64) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// ParseMilli reads a count of devices or cores: "2", "0.25", "250m".
func ParseMilli(s string) (Milli, error) {
	text, factor := strings.TrimSpace(s), 1000.0
	if rest, ok := strings.CutSuffix(text, "m"); ok {
		text, factor = rest, 1
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || math.IsNaN(v) || v*factor > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a number of devices or cores (write 2, 0.25 or 250m)", s)
	}
	return Milli(math.Round(v * factor)), nil
}

// String writes the count without needless zeros: 2, 0.25.
func (m Milli) String() string {
	return strconv.FormatFloat(float64(m)/1000, 'f', -1, 64)
}

// ParseSeconds reads a duration written as seconds ("90", "0.5"), in Go's way
// ("1h30m") or with days ("2d", "1d12h").
func ParseSeconds(s string) (time.Duration, error) {
	text := strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return Seconds(v)
	}
	bad := fmt.Errorf("%q is not a duration (write seconds, or 90s, 1h30m, 2d)", s)
	var days time.Duration
	if i := strings.IndexByte(text, 'd'); i > 0 {
		v, err := strconv.ParseFloat(text[:i], 64)
		if err != nil {
			return 0, bad
		}
		if days, err = Seconds(v * 86400); err != nil {
			return 0, bad
		}
		if text = text[i+1:]; text == "" {
			return days, nil
		}
	}
	rest, err := time.ParseDuration(text)
	if err != nil || days != 0 && (days < 0 || rest < 0 || rest > Never-days) {
		return 0, bad
	}
	return days + rest, nil
}

// Seconds turns a count of seconds into a duration, to the nearest nanosecond.
// It fails on a count that no duration holds (about 292 years).
func Seconds(v float64) (time.Duration, error) {
	ns := math.Round(v * 1e9)
	if math.IsNaN(ns) || math.Abs(ns) > math.MaxInt64/2 {
		return 0, fmt.Errorf("%v seconds is out of range", v)
	}
	return time.Duration(ns), nil
}

// Count is a number of things in words: 1 GPU, 3 GPUs.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// CountOrNo is Count, but no GPU where there is none.
func CountOrNo(n int, what string) string {
	if n == 0 {
		return "no " + what
	}
	return Count(n, what)
}

// Later is d after t, neither of them below 0; Never when that is beyond what can be
// counted.
func Later(t, d time.Duration) time.Duration {
	if d > Never-t {
		return Never
	}
	return t + d
}

// AppendSeconds writes d in seconds, exactly, without needless zeros: 90, 0.5.
func AppendSeconds(dst []byte, d time.Duration) []byte {
	ns := uint64(d)
	if d < 0 {
		dst = append(dst, '-')
		ns = -ns // so that the least duration has a positive twin
	}
	dst = strconv.AppendUint(dst, ns/1e9, 10)
	frac := ns % 1e9
	if frac == 0 {
		return dst
	}
	dst = append(dst, '.')
	for scale := uint64(1e8); frac > 0; scale /= 10 {
		dst = append(dst, byte('0'+frac/scale))
		frac %= scale
	}
	return dst
}

// FormatSeconds is AppendSeconds as a string.
func FormatSeconds(d time.Duration) string { return string(AppendSeconds(nil, d)) }

// Human writes a duration for a reader: 45s, 12m, 3h20m, 5d4h. It is rounded to
// the smaller of the two units.
func Human(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == Never:
		return "never"
	case d < 0:
		return "-" + Human(max(-d, -(d+1))) // the least duration has no positive twin
	case d < time.Second-500*time.Microsecond:
		return d.Round(time.Millisecond).String()
	case d < time.Minute-50*time.Millisecond:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	case d < time.Hour-time.Second/2:
		return pair(d, time.Minute, "m", time.Second, "s")
	case d < day-time.Minute/2:
		return pair(d, time.Hour, "h", time.Minute, "m")
	}
	return pair(d, day, "d", time.Hour, "h")
}

// pair writes d in two units, rounded to the smaller.
func pair(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	d = d.Round(small)
	s := strconv.FormatInt(int64(d/big), 10) + bigName
	if rest := d % big / small; rest > 0 {
		s += strconv.FormatInt(int64(rest), 10) + smallName
	}
	return s
}
