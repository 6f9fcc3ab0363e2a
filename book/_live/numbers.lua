-- Marks every number that a variable printed, so that a page can say where it comes from (scripts/live/numbers.py).
return {{
  Span = function(el)
    local key = (el.attributes["data-raw"] or ""):match("^{{<%s*var%s+([%w_.-]+)%s*>}}$")
    if key and el.classes:includes("quarto-shortcode__") then
      return pandoc.Span({ el }, pandoc.Attr("", { "printed" }, { { "data-var", key } }))
    end
  end,
}}
