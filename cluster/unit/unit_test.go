package unit

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"16GiB": 16 * GiB, "512Mi": 512 * MiB, "1.5G": 3 * GiB / 2, "2GB": 2e9, "7": 7, " 1 KiB ": KiB, "1K": KiB, "1k": 1000,
		"1PiB": 1 << 50, "0": 0, "3B": 3, "1kB": 1000, "0.5KiB": 512,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "-1GiB", "nan", "inf", "1e30", "16 Gib", "16XB", "1,5G", "10000000TiB"} {
		if got, err := ParseBytes(text); err == nil || !strings.Contains(err.Error(), "is not an amount of memory") {
			t.Errorf("ParseBytes(%q) = %d, %v; want an error", text, got, err)
		}
	}
}

func TestBytesString(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0B", 1: "1B", 1023: "1023B", KiB: "1KiB", 3 * GiB / 2: "1.50GiB", 720 * GiB: "720GiB", 2 * TiB: "2TiB", -GiB: "-1GiB",
		math.MinInt64: "-8388608.00TiB", math.MaxInt64: "8388608.00TiB",
	} {
		if got := b.String(); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", int64(b), got, want)
		}
	}
}

func TestParseMilli(t *testing.T) {
	for text, want := range map[string]Milli{"2": 2000, "0.25": 250, "250m": 250, " 1 ": 1000, "0": 0, "1e2": 100_000} {
		if got, err := ParseMilli(text); err != nil || got != want {
			t.Errorf("ParseMilli(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "m", "nan", "1e300", "two"} {
		if got, err := ParseMilli(text); err == nil {
			t.Errorf("ParseMilli(%q) = %d; want an error", text, got)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "0.5": 500 * time.Millisecond, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour,
		"-5": -5 * time.Second, "1.5d": 36 * time.Hour, "1e3": 1000 * time.Second, "0.0000000015": 2,
	} {
		if got, err := ParseSeconds(text); err != nil || got != want {
			t.Errorf("ParseSeconds(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "xd", "1d-1h", "-1d1h", "1d2d", "1h30", "nan", "inf", "1e12", "50000d1500000h", "200000d", "3 apples"} {
		if got, err := ParseSeconds(text); err == nil {
			t.Errorf("ParseSeconds(%q) = %v; want an error", text, got)
		}
	}
}

func TestFormatSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 90 * time.Second: "90", 500 * time.Millisecond: "0.5", -1: "-0.000000001", 1: "0.000000001",
		-1500 * time.Millisecond: "-1.5", math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808",
	} {
		if got := FormatSeconds(d); got != want {
			t.Errorf("FormatSeconds(%d) = %s, want %s", int64(d), got, want)
		}
	}
}

func TestHuman(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 45 * time.Second: "45s", 12 * time.Minute: "12m", 200 * time.Minute: "3h20m", 124 * time.Hour: "5d4h", -time.Minute: "-1m",
		Never: "never", 1500 * time.Millisecond: "1.5s", 20 * time.Microsecond: "0s", 90 * time.Second: "1m30s",
		// A value that is rounded up to the next unit is written in that unit.
		59960 * time.Millisecond:           "1m",
		time.Hour - 400*time.Millisecond:   "1h",
		24*time.Hour - 10*time.Second:      "1d",
		time.Second - 100*time.Microsecond: "1s",
		47*time.Hour + 45*time.Minute:      "2d",
		2*time.Hour - 20*time.Second:       "2h",
		math.MinInt64:                      "-never",
		-(24*time.Hour - 10*time.Second):   "-1d",
		999*time.Millisecond + 600_000:     "1s",
	} {
		if got := Human(d); got != want {
			t.Errorf("Human(%d) = %s, want %s", int64(d), got, want)
		}
	}
}

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "8": 8, "8.0": 8, "-3": -3, "8.": 8, "007": 7, "922337203685477580": 922337203685477580} {
		if got, ok := ParseInt([]byte(text)); !ok || got != want {
			t.Errorf("ParseInt(%q) = %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", ".", ".5", "8.5", "1e3", "x", "99999999999999999999", "--1", "+1", strings.Repeat("0", 50)} {
		if got, ok := ParseInt([]byte(text)); ok {
			t.Errorf("ParseInt(%q) = %d; want none", text, got)
		}
	}
}

// FuzzFormats: what is written is read back, and what is read is written so
// that it can be read again; nothing panics.
func FuzzFormats(f *testing.F) {
	for _, s := range []string{"0", "16GiB", "250m", "1d12h", "-0.5", "1e308", "106751d", "1h30m0.5s", "Infinity", "0x1p-2", "1_0"} {
		f.Add(s, int64(len(s))*1e9+7)
	}
	f.Add("x", int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, s string, n int64) {
		if b, err := ParseBytes(s); err == nil {
			if b < 0 {
				t.Errorf("ParseBytes(%q) = %d", s, b)
			}
			again, err := ParseBytes(b.String())
			if err != nil || math.Abs(float64(again-b)) > 0.005*float64(max(b, 1)) {
				t.Errorf("%q is %d, written %s, read %d, %v", s, b, b, again, err)
			}
		}
		if m, err := ParseMilli(s); err == nil {
			if m < 0 {
				t.Errorf("ParseMilli(%q) = %d", s, m)
			}
			if again, err := ParseMilli(m.String()); m < 1<<50 && (err != nil || again != m) {
				t.Errorf("%q is %d, written %s, read %d, %v", s, m, m, again, err)
			}
		}
		if d, err := ParseSeconds(s); err == nil {
			exactSeconds(t, d)
		}
		d := time.Duration(n)
		exactSeconds(t, d)
		if Human(d) == "" || Bytes(n).String() == "" || Milli(n).String() == "" {
			t.Errorf("%d is written as nothing", n)
		}
		scaledAgainstFloat(t, s)
	})
}

// exactSeconds checks that a duration is written exactly.
func exactSeconds(t *testing.T, d time.Duration) {
	t.Helper()
	text := FormatSeconds(d)
	whole, frac, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	sec, err := strconv.ParseUint(whole, 10, 64)
	ns, err2 := strconv.ParseUint((frac + "000000000")[:9], 10, 64)
	sum := sec*1e9 + ns
	if strings.HasPrefix(text, "-") {
		sum = -sum
	}
	if err != nil || err2 != nil || len(frac) > 9 || sum != uint64(d) {
		t.Errorf("%d ns is written %s", int64(d), text)
	}
	if v, ok := ParseScaled([]byte(text), 1e9); d.Abs() < 1e18 && d > -1e18 && (!ok || v != int64(d)) {
		t.Errorf("%s s is read as %d ns, %v", text, v, ok)
	}
}

// scaledAgainstFloat compares ParseScaled with floating point.
func scaledAgainstFloat(t *testing.T, s string) {
	t.Helper()
	for _, scale := range []int64{1, 1000, 1e9} {
		v, ok := ParseScaled([]byte(s), scale)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(s, 64)
		want := f * float64(scale)
		if err != nil || math.Abs(float64(v)-want) > 0.5+math.Abs(want)*1e-15 {
			t.Errorf("ParseScaled(%q, %d) = %d, want about %v (%v)", s, scale, v, want, err)
		}
	}
}

func TestLater(t *testing.T) {
	for _, c := range [][3]time.Duration{
		{0, 0, 0}, {1, 2, 3}, {0, Never, Never}, {1, Never, Never}, {Never, 1, Never}, {Never, Never, Never}, {1, Never - 2, Never - 1},
	} {
		if got := Later(c[0], c[1]); got != c[2] {
			t.Errorf("%d after %d is %d, want %d", c[1], c[0], got, c[2])
		}
	}
}
