package hardware

import (
	"regexp"
	"strings"
)

var (
	// model is what most data-centre GPUs are called: H200, V100S, L40S, A6000, MI300X.
	model = regexp.MustCompile(`^[A-Za-z]{1,2}[0-9]+[A-Za-z]*$`)
	// beside are words beside the model: how much memory, in which form.
	beside = regexp.MustCompile(`(?i)^(nvidia|tesla|geforce|quadro|amd|ati|radeon|instinct|graphics|gpu|laptop|generation|server|workstation|edition|oam|nvl|pcie|sxm\d*|hbm\d*e?|\d+g(i?b)?|\(tm\)|\(r\))$`)
)

// ShortType is the name of a GPU's type as policies and users write it, from its
// product name: H200 of NVIDIA H200, A100 of NVIDIA A100-SXM4-80GB, RTX3090 of
// NVIDIA GeForce RTX 3090. A name that cannot be shortened keeps its words.
func ShortType(product string) string {
	var words []string
	for _, w := range strings.FieldsFunc(product, func(r rune) bool { return r == ' ' || r == '-' || r == '/' || r == '_' }) {
		if !beside.MatchString(w) {
			words = append(words, w)
		}
	}
	for _, w := range words {
		if model.MatchString(w) {
			return w
		}
	}
	keep := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return -1
	}
	if short := strings.Map(keep, strings.Join(words, "")); short != "" {
		return short
	}
	return "gpu"
}
