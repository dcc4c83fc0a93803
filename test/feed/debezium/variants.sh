# What postgres.sh landed, in every form and in bad orders. Part of run.sh.

for engine in precise string double; do
  cdc_psql -c "CALL feed.judge('$engine')"
  while IFS='|' read -r what good; do
    verdict "$([ "$good" = t ] && echo 1 || echo 0)" "$engine: $what"
  done < <(cdc_value -c "SELECT * FROM feed.self_check($kills)")
done

if [ -n "$long" ]; then
  deliveries="in-order shuffled shuffled-twice cut middle replay"
  plan=$(for each in "precise env" "precise schema" "precise flat" "string env" "string flat" "double env" "double schema"; do
    for delivery in $deliveries; do echo "$each $delivery"; done; done)
else
  plan="precise env in-order
precise env shuffled
precise env shuffled-twice
precise env middle
precise schema shuffled-twice
precise flat cut
string env cut
string flat shuffled-twice
double env in-order
double schema shuffled-twice"
fi
while read -r each; do
  variant $each
done <<<"$plan"
